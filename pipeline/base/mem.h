/*
 * Memory: allocation that cannot fail quietly, and owners that are readable at the declaration.
 * Out of memory ends the process (its work is in files, the supervisor saves the run).
 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stdarg.h>
#include <stddef.h>

/* As calloc, realloc, strdup, strndup of libc, but never return NULL: they abort on no memory.
 */
void *mem_calloc(size_t count, size_t size) __attribute__((returns_nonnull));
void *mem_realloc(void *old, size_t count, size_t size) __attribute__((returns_nonnull));
char *mem_strdup(const char *text) __attribute__((returns_nonnull));
char *mem_strndup(const char *text, size_t len) __attribute__((returns_nonnull));
/* asprintf; the caller frees. */
char *mem_printf(const char *format, ...)
    __attribute__((returns_nonnull, format(printf, 1, 2)));
char *mem_vprintf(const char *format, va_list args)
    __attribute__((returns_nonnull, format(printf, 1, 0)));

/* As qsort of libc, but items may be NULL where count is 0, which qsort forbids. */
void mem_sort(void *items, size_t count, size_t size,
	      int (*compare)(const void *, const void *));

/* Overwrites a secret; not optimised away. */
void mem_wipe(void *data, size_t len);

void mem_free_ptr(void *where); /* for AUTO_FREE only: frees *(void **)where */
#define AUTO_FREE __attribute__((cleanup(mem_free_ptr)))

/* Hands over a pointer that an AUTO_FREE local owns: the local becomes NULL. */
#define MEM_STEAL(var)                                                                         \
	__extension__({                                                                        \
		__typeof__(var) stolen_ = (var);                                               \
		(var) = NULL;                                                                  \
		stolen_;                                                                       \
	})

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#endif
