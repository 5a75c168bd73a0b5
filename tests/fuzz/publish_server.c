/* Fuzz target: what a server and git say. The advertisement must be read the same in one piece
 * and byte by byte; a status line must never be a success that is not exactly ours; messages
 * come out without control bytes. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/publish/advert.h"
#include "pipeline/proxy.h"
#include "pipeline/publish/porcelain.h"

#define OID "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define REF "refs/heads/agent/x"

static void no_controls(const char *text)
{
	for (const unsigned char *c = (const unsigned char *)text; *c; c++)
		if (*c < ' ' || *c == 0x7f)
			abort();
}

static void advertisement(const char *text, size_t size)
{
	struct advert whole = {.at = 0}, pieces = {.at = 0};
	struct error err = {0};
	int state = advert_parse(&whole, text, size, REF, &err), step = 0;

	if (err.kind)
		no_controls(err.message);
	for (size_t len = 0; len <= size && !step; len++)
		step = advert_parse(&pieces, text, len, REF, &err);
	if (state != step || whole.at > size || strcmp(whole.tip, pieces.tip) != 0)
		abort();
	if (whole.tip[0] && strlen(whole.tip) != 40 && strlen(whole.tip) != 64)
		abort();
}

static void proxy_answer(const char *text, size_t size)
{
	size_t used = 0, in_pieces = 0;
	char why[256] = "", copy[64] = "";
	int whole = proxy_parse_answer(text, size, false, &used, why), step = 0;

	no_controls(why);
	for (size_t len = 0; len <= size && !step; len++)
		step = proxy_parse_answer(text, len, false, &in_pieces, why);
	if (whole != step || used != in_pieces || used > size)
		abort();
	memcpy(copy, text, size < sizeof(copy) ? size : sizeof(copy) - 1);
	proxy_exempts(copy, "git.example.org", 443);
	proxy_exempts(copy, "10.1.2.3", 443);
}

static void status(const char *text, size_t size)
{
	static const char line[] = "\t" OID ":" REF "\t";
	struct push_status found;

	porcelain_parse(text, size, OID, REF, OID ":refs/agent/attest/" OID, &found);
	porcelain_parse(text, size, OID, REF, NULL, &found);
	no_controls(found.summary);
	if ((found.outcome == PUSH_NEW || found.outcome == PUSH_UPDATED ||
	     found.outcome == PUSH_ALREADY) &&
	    !memmem(text, size, line, sizeof(line) - 1))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const urls[] = {"/x", "https://h/x", "ssh://u@h:9/x"};
	AUTO_STRBUF struct strbuf server = STRBUF_NONE;
	const char *text = (const char *)data;
	char tip[65];
	struct error err = {0};

	advertisement(text, size);
	proxy_answer(text, size);
	status(text, size);
	if (porcelain_ls_remote(text, size, REF, tip, &err) == 1 && strlen(tip) != 40 &&
	    strlen(tip) != 64)
		abort();
	strbuf_init(&server, 256);
	porcelain_server_text(text, size, &server);
	for (size_t i = 0; i < ARRAY_LEN(urls); i++) {
		struct remote remote;
		struct error why = {0};

		if (remote_parse(urls[i], NULL, &remote, &why) ||
		    porcelain_diagnose(&remote, text, size, &why) >= 0)
			abort();
		no_controls(why.message);
		no_controls(why.next);
		remote_release(&remote);
	}
	return 0;
}
