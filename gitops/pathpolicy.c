#include "pathpolicy.h"

#include <stdio.h>
#include <string.h>

#include "pipeline/base/error.h"
#include "pipeline/base/mem.h"
#include "pipeline/base/strbuf.h"
#include "pipeline/base/text.h"

/*
 * Runs of characters that compatibility normalisation (NFKC) or a case fold turns into the
 * letters g, i, t and the rest of ASCII: the ones from which ".git" could be spelled.
 * first..last map to ascii, ascii+1, …; with step 0 all of them to ascii.
 */
static const struct {
	unsigned first, last;
	char ascii;
	char step;
} lookalikes[] = {
    {0xFF01, 0xFF5E, '!', 1}, /* full-width forms */
    {0x24B6, 0x24CF, 'a', 1}, /* circled capitals */
    {0x24D0, 0x24E9, 'a', 1}, /* circled small letters */
    {0x0130, 0x0131, 'i', 0}, /* dotted capital, dotless small i */
    {0x1D62, 0x1D62, 'i', 0}, /* subscript i */
    {0x2071, 0x2071, 'i', 0}, /* superscript i */
    {0x2139, 0x2139, 'i', 0}, /* information source */
    {0x2148, 0x2148, 'i', 0}, /* double-struck italic i */
    {0x2110, 0x2111, 'i', 0}, /* script, black-letter I */
    {0x2160, 0x2160, 'i', 0}, /* roman numeral one */
    {0x2170, 0x2170, 'i', 0}, /* small roman numeral one */
    {0x1DA6, 0x1DA6, 'i', 0}, /* modifier small capital I */
    {0x1D35, 0x1D35, 'i', 0}, /* modifier capital I */
    {0x210A, 0x210A, 'g', 0}, /* script small g */
    {0x1D4D, 0x1D4D, 'g', 0}, /* modifier small g */
    {0x1D33, 0x1D33, 'g', 0}, /* modifier capital G */
    {0x0261, 0x0261, 'g', 0}, /* script g of phonetics */
    {0x1DA2, 0x1DA2, 'g', 0}, /* modifier script g */
    {0x1D57, 0x1D57, 't', 0}, /* modifier small t */
    {0x1D40, 0x1D40, 't', 0}, /* modifier capital T */
    {0x209C, 0x209C, 't', 0}, /* subscript t */
    {0x2024, 0x2024, '.', 0}, /* one dot leader */
    {0xFE52, 0xFE52, '.', 0}, /* small full stop */
    {0x3002, 0x3002, '.', 0}, /* ideographic full stop */
    {0xFF61, 0xFF61, '.', 0}, /* half-width ideographic full stop */
};

/* Code points that HFS+ leaves out when it compares names, and others without a shape. */
static bool is_ignorable(unsigned code)
{
	return (code >= 0x200B && code <= 0x200F) || (code >= 0x202A && code <= 0x202E) ||
	       (code >= 0x2060 && code <= 0x206F) || code == 0xFEFF || code == 0x00AD ||
	       code == 0x034F || code == 0x061C || (code >= 0x180B && code <= 0x180F) ||
	       (code >= 0x0300 && code <= 0x036F) || (code >= 0xFE00 && code <= 0xFE0F) ||
	       (code >= 0xE0000 && code <= 0xE0FFF);
}

/* The ASCII character that a code point may be taken for, lower case; 0 to leave it out; '?'
 * for anything else. */
static char fold(unsigned code)
{
	if (is_ignorable(code))
		return 0;
	/* mathematical letters: alphabets of 26 capitals and 26 small letters, one after
	 * the other */
	if (code >= 0x1D400 && code <= 0x1D6A3)
		return (char)('a' + (code - 0x1D400) % 26);
	for (size_t i = 0; i < ARRAY_LEN(lookalikes); i++)
		if (code >= lookalikes[i].first && code <= lookalikes[i].last) {
			unsigned step = lookalikes[i].step ? code - lookalikes[i].first : 0;
			code = (unsigned char)lookalikes[i].ascii + step;
			break;
		}
	if (code >= 'A' && code <= 'Z')
		return (char)(code - 'A' + 'a');
	return code < 0x80 ? (char)code : '?';
}

/*
 * The folded spelling of a component, cut to size (all that matters is short): lower case ASCII
 * without ignorables, without an alternate stream (":…"), without trailing dots and blanks.
 */
static void fold_component(char *dst, size_t size, const char *component, size_t len)
{
	size_t used = 0, pos = 0;

	while (pos < len && used + 1 < size) {
		unsigned code = (unsigned char)component[pos];
		size_t step = text_utf8_next(component + pos, len - pos, &code);
		pos += step ? step : 1;
		char c = step ? fold(code) : '?';
		if (c == ':')
			break;
		if (c)
			dst[used++] = c;
	}
	while (used > 0 && (dst[used - 1] == '.' || dst[used - 1] == ' '))
		used--;
	dst[used] = '\0';
}

/* Whether name is prefix, '~' and digits: a short name as NTFS makes them. */
static bool is_short_name(const char *name, const char *prefix)
{
	size_t len = strlen(prefix);

	if (strncmp(name, prefix, len) != 0 || name[len] != '~')
		return false;
	name += len + 1;
	return *name && name[strspn(name, "0123456789")] == '\0';
}

bool path_is_dotgit(const char *component, size_t len)
{
	char folded[64] = "";

	fold_component(folded, sizeof(folded), component, len);
	return strcmp(folded, ".git") == 0 || is_short_name(folded, "git");
}

bool path_is_dotgitmodules(const char *component, size_t len)
{
	char folded[64] = "";

	fold_component(folded, sizeof(folded), component, len);
	return strcmp(folded, ".gitmodules") == 0 || is_short_name(folded, "gitmod") ||
	       is_short_name(folded, "gi7eba");
}

/* Why a component is refused; NULL when it is fine. */
static const char *component_fault(const char *component, size_t len)
{
	if (len == 0)
		return "empty component";
	if (len == 1 && component[0] == '.')
		return "component '.'";
	if (len == 2 && component[0] == '.' && component[1] == '.')
		return "component '..' leads outside";
	if (len > PATH_COMPONENT_MAX)
		return "component longer than 255 bytes";
	if (path_is_dotgit(component, len))
		return "names git's own directory";
	if (path_is_dotgitmodules(component, len))
		return ".gitmodules may not be changed";
	if (component[len - 1] == '.' || component[len - 1] == ' ')
		return "component ends in a dot or a blank";
	return NULL;
}

/* Why the characters of a path are refused; NULL when they are fine. */
static const char *character_fault(const char *path, size_t len)
{
	for (size_t pos = 0; pos < len;) {
		unsigned code;
		size_t step = text_utf8_next(path + pos, len - pos, &code);
		if (!step)
			return "not valid UTF-8";
		if (code < 0x20 || code == 0x7f)
			return "control character";
		if (text_is_unsafe(code) || code == 0x034F)
			return "invisible or direction-changing character";
		if (code == '\\')
			return "backslash (components are separated by '/')";
		if (code == ':')
			return "colon";
		pos += step;
	}
	return NULL;
}

static const char *path_fault(const char *path, size_t len)
{
	size_t depth = 0;

	if (len == 0)
		return "empty";
	if (len > PATH_BYTES_MAX)
		return "longer than 4095 bytes";
	if (path[0] == '/')
		return "absolute; name it relative to the root of the repository";
	const char *fault = character_fault(path, len);
	if (fault)
		return fault;
	for (size_t start = 0; start <= len;) {
		const char *slash = memchr(path + start, '/', len - start);
		size_t end = slash ? (size_t)(slash - path) : len;
		if (++depth > PATH_DEPTH_MAX)
			return "more than 100 components";
		if ((fault = component_fault(path + start, end - start)) != NULL)
			return fault;
		start = end + 1;
	}
	return NULL;
}

int path_check(const char *path, size_t len, struct error *err)
{
	const char *fault = path_fault(path, len);
	char shown[256];

	if (!fault)
		return 0;
	text_escape(shown, sizeof(shown), path, len);
	return error_set(err, ERROR_NO, "path '%s' refused: %s", shown, fault);
}

void path_tidy(const char *path, struct strbuf *out)
{
	bool slash = false;

	while (path[0] == '.' && path[1] == '/') {
		path += 2;
		while (*path == '/')
			path++;
	}
	if (strcmp(path, ".") == 0)
		return;
	if (*path == '/') /* absolute stays absolute, so that path_check says so */
		strbuf_addc(out, '/');
	for (; *path; path++) {
		if (*path == '/') {
			slash = true;
			continue;
		}
		if (slash && out->len > 0 && out->data[out->len - 1] != '/')
			strbuf_addc(out, '/');
		slash = false;
		strbuf_addc(out, *path);
	}
}
