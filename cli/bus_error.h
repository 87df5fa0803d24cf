/* What the program says where a file that it has mapped is cut, before SIGBUS ends it. */
#ifndef RK_CLI_BUS_ERROR_H
#define RK_CLI_BUS_ERROR_H

void bus_error_install_handler(void);

#endif
