/* The way back of attr.c's conversion: the bytes that a file of the work tree is stored as. */
#include "attr.h"

#include <string.h>
#include <strings.h>

#include "pipeline/base/strbuf.h"

/* git's crlf_to_git. */
static bool takes_crlf_away(const struct attr_facts *facts, const char *data, size_t len,
			    const char *stored, size_t stored_len)
{
	struct attr_stats now, before;

	if (facts->text == ATTR_TEXT_UNSET)
		return false;
	if (facts->text != ATTR_TEXT_AUTO)
		return facts->text == ATTR_TEXT_SET || facts->eol != ATTR_EOL_UNSPECIFIED;
	attr_count(data, len, &now);
	attr_count(stored, stored_len, &before);
	return !now.binary && (before.binary || !before.crlf);
}

static void to_lf(const char *data, size_t len, struct strbuf *out)
{
	for (size_t i = 0; i < len; i++)
		if (data[i] != '\r' || i + 1 == len || data[i + 1] != '\n')
			strbuf_addc(out, data[i]);
}

/* "$Id: … $" on one line becomes "$Id$". */
static void collapse_ident(const char *data, size_t len, struct strbuf *out)
{
	for (size_t pos = 0; pos < len;) {
		const char *at = memmem(data + pos, len - pos, "$Id:", 4);
		size_t start = at ? (size_t)(at - data) : len;
		const char *close = at ? memchr(at + 4, '$', len - start - 4) : NULL;
		const char *lf = at ? memchr(at + 4, '\n', len - start - 4) : NULL;

		strbuf_add(out, data + pos, start - pos);
		if (!at)
			return;
		if (close && (!lf || close < lf)) {
			strbuf_adds(out, "$Id$");
			pos = (size_t)(close - data) + 1;
		} else {
			strbuf_add(out, at, 4);
			pos = start + 4;
		}
	}
}

int attr_clean(const struct attr_facts *facts, const char *data, size_t len, const char *stored,
	       size_t stored_len, struct strbuf *out)
{
	struct strbuf lf AUTO_STRBUF = STRBUF_NONE;

	if (facts->filter[0] ||
	    (facts->encoding[0] && strcasecmp(facts->encoding, "UTF-8") != 0))
		return 1;
	strbuf_init(&lf, out->max);
	if (takes_crlf_away(facts, data, len, stored, stored_len)) {
		to_lf(data, len, &lf);
		data = lf.data;
		len = lf.len;
	}
	if (facts->ident)
		collapse_ident(data, len, out);
	else
		strbuf_add(out, data, len);
	return 0;
}
