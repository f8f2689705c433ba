/*
 * Whether what a function gets at one place is only printed: `echo esc_html($user->display_name)`. Nothing is decided by it, and it goes nowhere
 * but into the output, or to the caller.
 *
 *     $name = $user->display_name;             FETCH_OBJ_R  ─> ASSIGN     ─> each use of $name
 *     printf('Hello %s!', esc_html($name));    SEND_VAR     ─> esc_html() ─> SEND ─> printf(): printed
 *     return $name === 'Anna';                 IS_IDENTICAL: may be anything
 *
 * The opcodes tell. A value is followed from the opcode that gets it: a temporary to the one place that takes it, a variable to all places of its
 * function. Only what is listed here keeps it as it is; everything else may be anything. Whether it is empty may be asked.
 */
#include "worker.h"

#include <string.h>

/* A function that passes one of its arguments on; 0: any but the first, which is a format. */
struct printer { const char *name; uint32_t argument; };

/* They return their argument as it is where it has only letters, digits, spaces, dots and hyphens. */
static const struct printer converters[] = {
	{ "esc_html", 1 }, { "esc_attr", 1 }, { "esc_url", 1 }, { "esc_url_raw", 1 }, { "esc_js", 1 }, { "esc_textarea", 1 }, { "wp_kses_post", 1 },
	{ "wp_kses_data", 1 }, { "wp_kses", 1 }, { "wp_strip_all_tags", 1 }, { "sanitize_text_field", 1 }, { "htmlspecialchars", 1 }, { "strval", 1 },
	{ "json_encode", 1 }, { "wp_json_encode", 1 }, { "sprintf", 0 },
};
/* They print it, now or with a script. */
static const struct printer sinks[] = { { "printf", 0 }, { "wp_localize_script", 3 }, { "wp_add_inline_script", 2 } };
/* They translate a format. */
static const char *const translators[] = { "__", "_x", "esc_html__", "esc_html_x", "esc_attr__", "esc_attr_x" };

#define COUNT(list) (sizeof(list) / sizeof *(list))
#define CVS_MOST 16u
#define STEPS_MOST 20000u

struct walk {
	const zend_op_array *code;
	bool returns;
	unsigned steps, count;
	uint32_t followed[CVS_MOST]; /* variables */
};

static bool follow(struct walk *walk, const zend_op *from, uint32_t var);
static bool follow_variable(struct walk *walk, uint32_t var);

/* ---- calls ---- */

static bool begins_call(zend_uchar opcode)
{
	switch (opcode) {
	case ZEND_INIT_FCALL: case ZEND_INIT_FCALL_BY_NAME: case ZEND_INIT_NS_FCALL_BY_NAME: case ZEND_INIT_METHOD_CALL: case ZEND_INIT_STATIC_METHOD_CALL:
	case ZEND_INIT_USER_CALL: case ZEND_INIT_DYNAMIC_CALL: case ZEND_NEW:
		return true;
	default:
		return false;
	}
}

static bool ends_call(zend_uchar opcode)
{
	switch (opcode) {
	case ZEND_DO_FCALL: case ZEND_DO_ICALL: case ZEND_DO_UCALL: case ZEND_DO_FCALL_BY_NAME: case ZEND_CALLABLE_CONVERT:
		return true;
	default:
		return false;
	}
}

static const zend_op *end_of(const struct walk *walk)
{
	return walk->code->opcodes + walk->code->last;
}

/* Where the call begins that this opcode is an argument, or the end, of; NULL: not found. */
static const zend_op *beginning_of(const struct walk *walk, const zend_op *op)
{
	unsigned depth = 0;
	while (op-- > walk->code->opcodes) {
		if (ends_call(op->opcode)) {
			depth++;
		} else if (begins_call(op->opcode) && depth-- == 0) {
			return op;
		}
	}
	return NULL;
}

static const zend_op *ending_of(const struct walk *walk, const zend_op *begin)
{
	unsigned depth = 0;
	for (const zend_op *op = begin + 1; op < end_of(walk); op++) {
		if (begins_call(op->opcode)) {
			depth++;
		} else if (ends_call(op->opcode) && depth-- == 0) {
			return op;
		}
	}
	return NULL;
}

/* The name of the function that is called, if it is PHP's or WordPress's own; NULL: it is not, or not known. */
static const char *called(const zend_op *begin)
{
	if (begin->op2_type != IS_CONST) {
		return NULL;
	}
	const zval *name = RT_CONSTANT(begin, begin->op2);
	const zend_function *function = NULL;
	if (begin->opcode == ZEND_INIT_FCALL) {
		function = zend_hash_find_ptr(EG(function_table), Z_STR_P(name));
	} else if (begin->opcode == ZEND_INIT_FCALL_BY_NAME || begin->opcode == ZEND_INIT_NS_FCALL_BY_NAME) {
		function = zend_hash_find_ptr(EG(function_table), Z_STR_P(name + 1));
		if (!function && begin->opcode == ZEND_INIT_NS_FCALL_BY_NAME) {
			function = zend_hash_find_ptr(EG(function_table), Z_STR_P(name + 2));
		}
	}
	bool is_known = function && (function->type == ZEND_INTERNAL_FUNCTION || observe_is_core(function->op_array.filename));
	return is_known && function->common.function_name ? ZSTR_VAL(function->common.function_name) : NULL;
}

static bool passes(const struct printer *all, size_t count, const char *name, uint32_t argument)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(all[i].name, name) == 0) {
			return all[i].argument ? all[i].argument == argument : argument > 1;
		}
	}
	return false;
}

/* Whether a format only puts values in as they are: %s, %1$s, %%. */
static bool is_plain_format(const zval *text)
{
	if (Z_TYPE_P(text) != IS_STRING) {
		return false;
	}
	for (const char *at = Z_STRVAL_P(text); (at = strchr(at, '%')); at++) {
		at++;
		size_t digits = strspn(at, "0123456789");
		if (digits && at[digits] != '$') {
			return false;
		}
		at += digits ? digits + 1 : 0;
		if (*at != 's' && (*at != '%' || digits)) {
			return false;
		}
	}
	return true;
}

static bool is_send(const zend_op *op)
{
	switch (op->opcode) {
	case ZEND_SEND_VAL: case ZEND_SEND_VAL_EX: case ZEND_SEND_VAR: case ZEND_SEND_VAR_EX: case ZEND_SEND_VAR_NO_REF: case ZEND_SEND_VAR_NO_REF_EX:
	case ZEND_SEND_FUNC_ARG:
		return op->op2_type != IS_CONST;
	default:
		return false;
	}
}

static bool is_translator(const char *name)
{
	for (size_t i = 0; name && i < COUNT(translators); i++) {
		if (strcmp(translators[i], name) == 0) {
			return true;
		}
	}
	return false;
}

/* Whether the first argument of the call that begins there is a plain format, or the translation of one. */
static bool has_plain_format(const struct walk *walk, const zend_op *begin)
{
	const zend_op *op = begin + 1;
	bool translates = op < end_of(walk) && begins_call(op->opcode) && is_translator(called(op));
	op += translates;
	bool is_plain = op < end_of(walk) && is_send(op) && op->op1_type == IS_CONST && is_plain_format(RT_CONSTANT(op, op->op1));
	if (!is_plain || !translates) {
		return is_plain;
	}
	const zend_op *end = ending_of(walk, begin + 1);
	return end && end + 1 < end_of(walk) && is_send(end + 1) && end[1].op2.num == 1 && end[1].op1.var == end->result.var;
}

/* It is an argument. */
static bool use_in_call(struct walk *walk, const zend_op *send)
{
	const zend_op *begin = beginning_of(walk, send), *end = begin ? ending_of(walk, begin) : NULL;
	const char *name = end && end->opcode != ZEND_CALLABLE_CONVERT ? called(begin) : NULL;
	uint32_t argument = send->op2.num;
	if (!name || ((strcmp(name, "sprintf") == 0 || strcmp(name, "printf") == 0) && !has_plain_format(walk, begin))) {
		return false;
	}
	if (passes(sinks, COUNT(sinks), name, argument)) {
		return end->result_type == IS_UNUSED || end[1].opcode == ZEND_FREE;
	}
	return passes(converters, COUNT(converters), name, argument) && (end->result_type == IS_UNUSED || follow(walk, end + 1, end->result.var));
}

/* ---- values ---- */

/* The opcode leaves it in its result. */
static bool use_of_result(struct walk *walk, const zend_op *op)
{
	switch (op->result_type) {
	case IS_UNUSED:
		return true;
	case IS_CV:
		return follow_variable(walk, op->result.var);
	default:
		return follow(walk, op + 1, op->result.var);
	}
}

/* What an opcode does with it; `is_first`: as its first operand. */
static bool use(struct walk *walk, const zend_op *op, bool is_first)
{
	switch (op->opcode) {
	case ZEND_ECHO: case ZEND_FREE: case ZEND_JMPZ: case ZEND_JMPNZ: case ZEND_JMPZ_EX: case ZEND_JMPNZ_EX: case ZEND_BOOL: case ZEND_BOOL_NOT:
	case ZEND_ISSET_ISEMPTY_CV: case ZEND_UNSET_CV:
		return true;
	case ZEND_QM_ASSIGN: case ZEND_CONCAT: case ZEND_FAST_CONCAT: case ZEND_ROPE_INIT: case ZEND_ROPE_ADD: case ZEND_ROPE_END: case ZEND_VERIFY_RETURN_TYPE:
		return use_of_result(walk, op);
	case ZEND_CAST:
		return op->extended_value == IS_STRING && use_of_result(walk, op);
	case ZEND_INIT_ARRAY: case ZEND_ADD_ARRAY_ELEMENT:
		return is_first && !(op->extended_value & ZEND_ARRAY_ELEMENT_REF) && use_of_result(walk, op);
	case ZEND_JMP_SET: case ZEND_COALESCE:
		return follow(walk, OP_JMP_ADDR(op, op->op2), op->result.var);
	case ZEND_ASSIGN:
		return is_first || (op->op1_type == IS_CV && follow_variable(walk, op->op1.var) && use_of_result(walk, op));
	case ZEND_ASSIGN_OP:
		return op->extended_value == ZEND_CONCAT && op->op1_type == IS_CV && (is_first || follow_variable(walk, op->op1.var)) && use_of_result(walk, op);
	case ZEND_RETURN:
		walk->returns = true;
		return true;
	default:
		return is_first && is_send(op) && use_in_call(walk, op);
	}
}

/* A temporary, from an opcode on: the first place on the way that takes it is the only one. */
static bool follow(struct walk *walk, const zend_op *op, uint32_t var)
{
	const uint32_t temporary = IS_TMP_VAR | IS_VAR;
	while (op >= walk->code->opcodes && op < end_of(walk) && walk->steps++ < STEPS_MOST) {
		if ((op->op1_type & temporary) && op->op1.var == var) {
			return use(walk, op, true);
		}
		if ((op->op2_type & temporary) && op->op2.var == var) {
			return use(walk, op, false);
		}
		op = op->opcode == ZEND_JMP ? OP_JMP_ADDR(op, op->op1) : op + 1;
	}
	return false;
}

/* Whether code may get at a variable without naming it. */
static bool has_dynamic_scope(const zend_op_array *code)
{
	if (!code->function_name || (code->fn_flags & (ZEND_ACC_GENERATOR | ZEND_ACC_RETURN_REFERENCE))) {
		return true;
	}
	for (uint32_t i = 0; i < code->last; i++) {
		const zend_op *op = &code->opcodes[i];
		switch (op->opcode) {
		case ZEND_INCLUDE_OR_EVAL: case ZEND_INIT_DYNAMIC_CALL: case ZEND_INIT_USER_CALL:
			return true;
		case ZEND_FETCH_R: case ZEND_FETCH_W: case ZEND_FETCH_RW: case ZEND_FETCH_IS: case ZEND_FETCH_FUNC_ARG: case ZEND_ISSET_ISEMPTY_VAR:
			if (!(op->extended_value & ZEND_FETCH_GLOBAL)) {
				return true;
			}
			break;
		case ZEND_INIT_FCALL: case ZEND_INIT_FCALL_BY_NAME: case ZEND_INIT_NS_FCALL_BY_NAME:
			if (strstr(Z_STRVAL_P(RT_CONSTANT(op, op->op2)), "compact") || strstr(Z_STRVAL_P(RT_CONSTANT(op, op->op2)), "get_defined_vars")) {
				return true;
			}
			break;
		}
	}
	return false;
}

/* A variable of the function: in all places. */
static bool follow_variable(struct walk *walk, uint32_t var)
{
	for (unsigned i = 0; i < walk->count; i++) {
		if (walk->followed[i] == var) {
			return true;
		}
	}
	bool is_argument = EX_VAR_TO_NUM(var) < walk->code->num_args;
	if (is_argument || walk->count == CVS_MOST || (walk->count == 0 && has_dynamic_scope(walk->code))) {
		return false;
	}
	walk->followed[walk->count++] = var;
	for (const zend_op *op = walk->code->opcodes; op < end_of(walk) && walk->steps++ < STEPS_MOST; op++) {
		if ((op->op1_type == IS_CV && op->op1.var == var && !use(walk, op, true)) || (op->op2_type == IS_CV && op->op2.var == var && !use(walk, op, false))) {
			return false;
		}
	}
	return walk->steps < STEPS_MOST;
}

/* What becomes of what the frame's function gets by the opcode that it runs: a property, or what a function returns. */
enum flow flow_of(const zend_execute_data *frame)
{
	struct walk walk = { .code = &frame->func->op_array };
	const zend_op *op = frame->opline;
	if (!op || op < walk.code->opcodes || op >= end_of(&walk)) {
		return FLOW_UNKNOWN;
	}
	switch (op->opcode) {
	case ZEND_ISSET_ISEMPTY_PROP_OBJ:
		return FLOW_PRINTED;
	case ZEND_FETCH_OBJ_R: case ZEND_FETCH_OBJ_IS: case ZEND_FETCH_OBJ_FUNC_ARG: case ZEND_INCLUDE_OR_EVAL:
	case ZEND_DO_FCALL: case ZEND_DO_ICALL: case ZEND_DO_UCALL: case ZEND_DO_FCALL_BY_NAME:
		return !use_of_result(&walk, op) ? FLOW_UNKNOWN : walk.returns ? FLOW_RETURNED : FLOW_PRINTED;
	default:
		return FLOW_UNKNOWN;
	}
}
