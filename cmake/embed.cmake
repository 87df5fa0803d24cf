# A file's bytes as a C array: cmake -DINPUT=FILE -DNAME=IDENTIFIER -DOUTPUT=FILE.c -P embed.cmake
# Without -P, rk_embed(TARGET IDENTIFIER FILE) makes it a source of a target: `const unsigned char NAME[]`, with a NUL behind it, and `const size_t NAME_bytes`.
if(CMAKE_SCRIPT_MODE_FILE)
  file(READ ${INPUT} bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(REGEX REPLACE "(....................................................................................................)" "\\1\n" bytes "${bytes}")
  file(WRITE ${OUTPUT} "#include <stddef.h>\nextern const unsigned char ${NAME}[];\nextern const size_t ${NAME}_bytes;\nconst unsigned char ${NAME}[] = {\n${bytes}0};\nconst size_t ${NAME}_bytes = sizeof ${NAME} - 1;\n")
  return()
endif()

set(RK_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_FILE})
function(rk_embed target name input)
  set(output ${PROJECT_BINARY_DIR}/embedded/${name}.c)
  add_custom_command(OUTPUT ${output} COMMAND ${CMAKE_COMMAND} -DINPUT=${input} -DNAME=${name} -DOUTPUT=${output} -P ${RK_EMBED_SCRIPT} DEPENDS ${input} ${RK_EMBED_SCRIPT} VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
