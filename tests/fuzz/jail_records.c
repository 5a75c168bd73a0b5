/* Fuzz target: the records of the jail. The first byte chooses spec, go or facts. What is taken must come out the same when it is
 * written again, a go must name only what lies below its store, and no prefix of a go or of facts may be taken. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/strbuf.h"
#include "sandbox/jail/identity.h"
#include "sandbox/jail_spec.h"
#include "sandbox/subuid.h"

static void check_spec(const char *data, size_t len)
{
	struct jail_spec spec, again;
	struct strbuf text AUTO_STRBUF = STRBUF_NONE, second AUTO_STRBUF = STRBUF_NONE;
	struct error err = {0};

	if (jail_spec_parse(data, len, &spec, &err) < 0)
		return;
	strbuf_init(&text, STRBUF_MAX);
	strbuf_init(&second, STRBUF_MAX);
	jail_spec_format(&spec, &text);
	if (jail_spec_parse(text.data, text.len, &again, &err) < 0)
		abort();
	jail_spec_format(&again, &second);
	if (text.len != second.len || memcmp(text.data, second.data, text.len) != 0)
		abort();
	jail_spec_release(&spec);
	jail_spec_release(&again);
}

static void check_layer(const char *name)
{
	if (name[0] == '/' || !name[0] || strstr(name, "//") || strpbrk(name, " \n:,\\") ||
	    strcmp(name, "..") == 0 || strncmp(name, "../", 3) == 0 || strstr(name, "/../") ||
	    (strlen(name) > 2 && strcmp(name + strlen(name) - 3, "/..") == 0))
		abort();
}

static void check_go(const char *data, size_t len)
{
	struct jail_go go;
	struct error err = {0};

	if (jail_go_parse(data, len, &go, &err) < 0)
		return;
	for (size_t i = 0; i < go.layer_count; i++)
		check_layer(go.layers[i]);
	for (size_t i = 0; i < go.home_count; i++)
		check_layer(go.home_layers[i]);
	jail_go_release(&go);
	for (size_t part = 0; part < len; part++)
		if (jail_go_parse(data, part, &go, &err) == 0)
			abort();
}

static void check_facts(const char *data, size_t len)
{
	struct jail_facts facts;
	struct strbuf text AUTO_STRBUF = STRBUF_NONE;
	struct error err = {0};

	if (jail_facts_parse(data, len, &facts, &err) < 0)
		return;
	strbuf_init(&text, STRBUF_MAX);
	jail_facts_format(&facts, &text);
	if (jail_facts_parse(text.data, text.len, &facts, &err) < 0)
		abort();
	for (size_t part = 0; part < len; part++)
		if (jail_facts_parse(data, part, &facts, &err) == 0)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data + 1;

	if (size == 0)
		return 0;
	if (data[0] % 4 == 0)
		check_spec(text, size - 1);
	else if (data[0] % 4 == 1)
		check_go(text, size - 1);
	else if (data[0] % 4 == 2)
		check_facts(text, size - 1);
	else {
		struct strbuf map AUTO_STRBUF = STRBUF_NONE;
		struct subuid_range range;

		strbuf_init(&map, STRBUF_MAX);
		strbuf_add(&map, text, size - 1);
		if (identity_from_map(map.data, 1879052300, &range) != (range.count != 0))
			abort();
	}
	return 0;
}
