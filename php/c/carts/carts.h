/* What the files in here share: whether a page depends on what is in its visitor's cart. reads.c begins with an overview. */
#ifndef MILLRACE_CARTS_H
#define MILLRACE_CARTS_H

#include "../worker.h"

/* What a function that was changed when it was compiled says by millrace_cart_trace(). */
enum trace { TRACE_METHOD, TRACE_HOOKS, TRACE_ENTER, TRACE_LEAVE, TRACE_POST };

/* instrument.c: changes functions when they are compiled */
void instrument_startup(void);
bool instrument_is_traced(const zend_op_array *code);

/* known.c: what is known of WooCommerce's and WordPress's functions */
bool known_is_watched(const zend_string *class);
bool known_is_maintenance(const zend_string *class, const zend_string *name);
bool known_is_keeper(const zend_string *class, const zend_string *name);
bool known_is_printer(const zend_string *name);
bool known_is_converter(const zend_string *name);
bool known_is_stateless(const char *hook);

/* printed.c: functions that do nothing but print */
bool printed_is_clean(const zend_op_array *code);
bool printed_is_silent(const zend_op_array *code);

/* objects.c: reads of properties */
void objects_startup(void);
void objects_adopt(zend_object *object);

/* reads.c */
void reads_of_object(const zend_object *object, const zend_string *property);
void reads_of_state(const char *what);

#endif
