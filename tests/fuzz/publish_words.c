/* Fuzz target: CONNECT requests, keys, refs. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"
#include "pipeline/publish/relay.h"
#include "pipeline/publish/rules.h"
#include "pipeline/publish/sshkey.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char head[] = "CONNECT h.example:443 HTTP/1.";
	const char *text = (const char *)data;
	char *word AUTO_FREE = mem_strndup(text, size);
	size_t used = 0;
	struct error err = {0};

	if (relay_parse_connect(text, size, "h.example:443", &used) == 1) {
		if (used > size || memcmp(text + used - 4, "\r\n\r\n", 4) != 0 ||
		    strncasecmp(text, head, sizeof(head) - 1) != 0)
			abort();
	}
	sshkey_check(text, size, &sshkey_push, &err);
	if (rules_check_ref(word, &err) == 0 &&
	    (strspn(word,
		    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._/-") !=
		 strlen(word) ||
	     strstr(word, "..") || strstr(word, "//") || strstr(word, "/-") ||
	     strstr(word, "/.")))
		abort();
	return 0;
}
