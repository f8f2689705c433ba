/* Everything that differs between PHP 8.1 and 8.4; no other file looks at PHP_VERSION_ID. */
#ifndef MILLRACE_COMPAT_H
#define MILLRACE_COMPAT_H

#include <main/php.h>

#if PHP_VERSION_ID < 80100 || PHP_VERSION_ID >= 80500
# error "millrace-php is written for PHP 8.1 to 8.4"
#endif
#ifdef ZTS
# error "millrace-php needs a PHP that is not thread safe (NTS): one process serves one request at a time"
#endif

#include <main/SAPI.h>
#include <main/php_main.h>
#include <main/php_ini.h>
#include <main/php_output.h>
#include <main/php_variables.h>
#include <main/fopen_wrappers.h>
#include <main/php_network.h>
#include <Zend/zend_alloc.h>
#include <Zend/zend_exceptions.h>
#include <Zend/zend_extensions.h>
#include <Zend/zend_signal.h>
#include <Zend/zend_stream.h>
#include <ext/standard/info.h>

/* php_module_startup lost its parameter for the number of modules in 8.2. */
#if PHP_VERSION_ID < 80200
# define MR_MODULE_STARTUP(sapi, module) php_module_startup((sapi), (module), 1)
#else
# define MR_MODULE_STARTUP(sapi, module) php_module_startup((sapi), (module))
#endif

/* getenv() without a name has a hook of its own since 8.2; before, it uses the one of $_ENV, under php-fpm as well. */
#if PHP_VERSION_ID < 80200
# define MR_HOOK_GETENV(function) ((void)(function))
#else
# define MR_HOOK_GETENV(function) (php_load_environment_variables = (function))
#endif

/* memory_reset_peak_usage() came with 8.2. */
#if PHP_VERSION_ID < 80200
# define MR_RESET_PEAK() ((void)0)
#else
# define MR_RESET_PEAK() zend_memory_reset_peak_usage()
#endif

/*
 * Since 8.2 random numbers come from ext/random, which forgets its seeds when a request starts; before, from ext/standard.
 */
#if PHP_VERSION_ID < 80200
# include <ext/standard/basic_functions.h>
# define MR_FORGET_SEEDS() (BG(mt_rand_is_seeded) = 0)
#else
# define MR_FORGET_SEEDS() ((void)0)
#endif

/* Since 8.4 the compiler calls some functions without their handler. */
#if PHP_VERSION_ID < 80400
# define MR_NO_FRAMELESS_CALLS(function) ((void)(function))
#else
# define MR_NO_FRAMELESS_CALLS(function) ((function)->frameless_function_infos = NULL)
#endif

/* Makes the VM call zend_interrupt_function soon; the flag is atomic since 8.2. */
#if PHP_VERSION_ID < 80200
# define MR_INTERRUPT() (EG(vm_interrupt) = 1)
#else
# define MR_INTERRUPT() zend_atomic_bool_store_ex(&EG(vm_interrupt), true)
#endif

/* The function that compiles the text of an eval(); 8.2 added where the text begins. */
#if PHP_VERSION_ID < 80200
# define MR_COMPILE_STRING(name) zend_op_array *(name)(zend_string *source, const char *file)
# define MR_COMPILE_STRING_PASSTHRU source, file
#else
# define MR_COMPILE_STRING(name) zend_op_array *(name)(zend_string *source, const char *file, zend_compile_position position)
# define MR_COMPILE_STRING_PASSTHRU source, file, position
#endif

/* Exported, but declared in no header; sapi/cli/php_cli.c declares them in the same way. */
PHPAPI extern char *php_ini_opened_path;
PHPAPI extern char *php_ini_scanned_path;

#endif
