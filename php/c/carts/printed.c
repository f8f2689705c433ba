/*
 * Functions of themes that do nothing with a cart but print it, such as Storefront's storefront_cart_link(). What such a function prints is
 * what the browser gets as a fragment; what it prints on the page is replaced by that. That it does nothing else is seen from its opcodes:
 *
 * - it writes to variables of its own only, and returns nothing;
 * - it passes values only to functions that make text of them (known_is_printer), or to none.
 *
 * Whatever is not in these lists may do something else.
 */
#include "carts.h"

/* Opcodes that touch nothing but temporary values and the function's own variables, or only read. */
static bool is_plain(zend_uchar opcode)
{
	switch (opcode) {
	case ZEND_NOP: case ZEND_ADD: case ZEND_SUB: case ZEND_MUL: case ZEND_DIV: case ZEND_MOD: case ZEND_CONCAT: case ZEND_FAST_CONCAT:
	case ZEND_IS_IDENTICAL: case ZEND_IS_NOT_IDENTICAL: case ZEND_IS_EQUAL: case ZEND_IS_NOT_EQUAL: case ZEND_IS_SMALLER: case ZEND_IS_SMALLER_OR_EQUAL:
	case ZEND_BOOL: case ZEND_BOOL_NOT: case ZEND_CAST: case ZEND_QM_ASSIGN: case ZEND_ECHO: case ZEND_FREE:
	case ZEND_JMP: case ZEND_JMPZ: case ZEND_JMPNZ: case ZEND_JMPZ_EX: case ZEND_JMPNZ_EX: case ZEND_JMP_SET: case ZEND_COALESCE:
	case ZEND_ROPE_INIT: case ZEND_ROPE_ADD: case ZEND_ROPE_END:
	case ZEND_SEND_VAL: case ZEND_SEND_VAL_EX: case ZEND_SEND_VAR: case ZEND_SEND_VAR_EX: case ZEND_DO_FCALL: case ZEND_DO_ICALL: case ZEND_DO_UCALL:
	case ZEND_DO_FCALL_BY_NAME: case ZEND_RECV: case ZEND_RECV_INIT: case ZEND_RETURN: case ZEND_VERIFY_RETURN_TYPE:
	case ZEND_FETCH_CONSTANT: case ZEND_FETCH_CLASS_CONSTANT: case ZEND_FETCH_OBJ_R: case ZEND_FETCH_OBJ_IS: case ZEND_FETCH_DIM_R: case ZEND_FETCH_DIM_IS:
	case ZEND_FETCH_THIS: case ZEND_ASSIGN: case ZEND_ISSET_ISEMPTY_CV: case ZEND_ISSET_ISEMPTY_PROP_OBJ: case ZEND_ISSET_ISEMPTY_DIM_OBJ: case ZEND_INSTANCEOF:
	case ZEND_STRLEN: case ZEND_COUNT: case ZEND_TYPE_CHECK: case ZEND_EXT_STMT: case ZEND_EXT_NOP:
		return true;
	default:
		return false;
	}
}

/* Whether a call begins that passes nothing on, or only to what makes text of it; a name may be in the namespace or not: then it is unknown. */
static bool is_plain_call(const zend_op *op)
{
	switch (op->opcode) {
	case ZEND_INIT_METHOD_CALL:
	case ZEND_INIT_STATIC_METHOD_CALL:
	case ZEND_INIT_NS_FCALL_BY_NAME:
		return op->extended_value == 0;
	case ZEND_INIT_FCALL:
	case ZEND_INIT_FCALL_BY_NAME:
		return op->extended_value == 0 || known_is_printer(Z_STR_P(RT_CONSTANT(op, op->op2)));
	default:
		return false;
	}
}

static bool has_references(const zend_op_array *code)
{
	for (uint32_t i = 0; i < code->num_args; i++) {
		if (ZEND_ARG_SEND_MODE(&code->arg_info[i]) != ZEND_SEND_BY_VAL) {
			return true;
		}
	}
	return false;
}

/* Whether a function leaves nothing of what it reads anywhere but in its output and in what it returns. */
bool printed_is_clean(const zend_op_array *code)
{
	const uint32_t foreign = ZEND_ACC_GENERATOR | ZEND_ACC_VARIADIC | ZEND_ACC_RETURN_REFERENCE;
	if (!code->function_name || (code->fn_flags & foreign) || code->static_variables || has_references(code)) {
		return false;
	}
	for (uint32_t i = 0; i < code->last; i++) {
		if (!is_plain(code->opcodes[i].opcode) && !is_plain_call(&code->opcodes[i])) {
			return false;
		}
	}
	return true;
}

/* Whether it returns nothing. */
bool printed_is_silent(const zend_op_array *code)
{
	for (uint32_t i = 0; i < code->last; i++) {
		const zend_op *op = &code->opcodes[i];
		if (op->opcode == ZEND_RETURN && (op->op1_type != IS_CONST || Z_TYPE_P(RT_CONSTANT(op, op->op1)) != IS_NULL)) {
			return false;
		}
	}
	return true;
}
