#include "error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "pipeline/base/text.h"
#include "pipeline/exitcode.h"

static void put(char *dst, size_t size, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));
static void put(char *dst, size_t size, const char *format, va_list args)
{
	char raw[2048];

	vsnprintf(raw, sizeof(raw), format, args);
	text_escape(dst, size, raw, strlen(raw));
}

int error_set(struct error *err, enum error_kind kind, const char *format, ...)
{
	va_list args;

	if (!err)
		return kind;
	err->kind = kind;
	err->next[0] = '\0';
	va_start(args, format);
	put(err->message, sizeof(err->message), format, args);
	va_end(args);
	return kind;
}

int error_errno(struct error *err, enum error_kind kind, int errno_value, const char *format,
		...)
{
	va_list args;
	size_t len;

	if (!err)
		return kind;
	err->kind = kind;
	err->next[0] = '\0';
	va_start(args, format);
	put(err->message, sizeof(err->message), format, args);
	va_end(args);
	len = strlen(err->message);
	snprintf(err->message + len, sizeof(err->message) - len, ": %s", strerror(errno_value));
	if (errno_value == ENOSPC || errno_value == EDQUOT)
		error_next(err, "make room on its disk");
	return kind;
}

int error_next(struct error *err, const char *format, ...)
{
	va_list args;

	if (!err)
		return ERROR_FAILED;
	va_start(args, format);
	put(err->next, sizeof(err->next), format, args);
	va_end(args);
	return err->kind;
}

int error_wrap(struct error *err, const char *format, ...)
{
	char context[512], whole[sizeof(err->message) + sizeof(context) + 2];
	va_list args;

	if (!err)
		return ERROR_FAILED;
	va_start(args, format);
	put(context, sizeof(context), format, args);
	va_end(args);
	snprintf(whole, sizeof(whole), "%s: %s", context, err->message);
	memcpy(err->message, whole, sizeof(err->message) - 1);
	err->message[sizeof(err->message) - 1] = '\0';
	return err->kind;
}

static const struct {
	int kind, status;
} statuses[] = {
    {ERROR_NONE, EXIT_DONE},	       {ERROR_NO, EXIT_NO},
    {ERROR_USAGE, EXIT_USAGE},	       {ERROR_SKIPPED, EXIT_SKIPPED},
    {ERROR_FAILED, EXIT_FAILED},       {ERROR_LATER, EXIT_LATER},
    {ERROR_ISOLATION, EXIT_ISOLATION}, {ERROR_INTERRUPTED, EXIT_INTERRUPTED},
};

int error_exit_status(int kind)
{
	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
		if (statuses[i].kind == kind)
			return statuses[i].status;
	return EXIT_FAILED;
}

int error_kind_of_status(int status)
{
	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
		if (statuses[i].status == status)
			return statuses[i].kind;
	return ERROR_FAILED;
}
