include(GNUInstallDirs)

# In a wheel (pyproject.toml) library, program and data stand beside the Python package, without the links of versions that a wheel cannot hold.
if(SKBUILD)
  set_property(TARGET reckon PROPERTY VERSION)
  set_property(TARGET reckon PROPERTY SOVERSION)
  set_target_properties(reckon_program PROPERTIES INSTALL_RPATH "$ORIGIN")
  install(TARGETS reckon reckon_program LIBRARY DESTINATION . COMPONENT python RUNTIME DESTINATION . COMPONENT python)
  install(DIRECTORY data/adult DESTINATION data COMPONENT python) # reckon.datasets.adult
  return()
endif()

install(TARGETS reckon LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS reckon_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
set_target_properties(reckon_program PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
install(DIRECTORY include/reckon DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
configure_file(cmake/reckon.pc.in reckon.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/reckon.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# Man page and completions come from the program's own table of commands.
set(generated ${PROJECT_BINARY_DIR}/generated)
add_custom_command(
  OUTPUT ${generated}/reckon.1 ${generated}/reckon.bash ${generated}/_reckon ${generated}/reckon.fish
  COMMAND ${CMAKE_COMMAND} -E make_directory ${generated}
  COMMAND reckon_program manual > ${generated}/reckon.1
  COMMAND reckon_program completion bash > ${generated}/reckon.bash
  COMMAND reckon_program completion zsh > ${generated}/_reckon
  COMMAND reckon_program completion fish > ${generated}/reckon.fish
  DEPENDS reckon_program VERBATIM)
add_custom_target(generated ALL DEPENDS ${generated}/reckon.1)
install(FILES ${generated}/reckon.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${generated}/reckon.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME reckon)
install(FILES ${generated}/_reckon DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES ${generated}/reckon.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
