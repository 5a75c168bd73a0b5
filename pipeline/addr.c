#include "addr.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "pipeline/base/mem.h"

struct range4 {
	uint32_t network; /* host byte order */
	unsigned bits;
	enum addr_class class;
};

/* IANA IPv4 Special-Purpose Address Registry. */
static const struct range4 ranges4[] = {
    {0x00000000, 8, ADDR_UNSPECIFIED}, {0x0a000000, 8, ADDR_PRIVATE},
    {0x64400000, 10, ADDR_SHARED},     {0x7f000000, 8, ADDR_LOOPBACK},
    {0xa9fe0000, 16, ADDR_LINK_LOCAL}, {0xac100000, 12, ADDR_PRIVATE},
    {0xc0000000, 24, ADDR_RESERVED},   {0xc0000200, 24, ADDR_RESERVED},
    {0xc0586300, 24, ADDR_RESERVED},   {0xc0a80000, 16, ADDR_PRIVATE},
    {0xc6120000, 15, ADDR_RESERVED},   {0xc6336400, 24, ADDR_RESERVED},
    {0xcb007100, 24, ADDR_RESERVED},   {0xffffffff, 32, ADDR_MULTICAST},
    {0xe0000000, 4, ADDR_MULTICAST},   {0xf0000000, 4, ADDR_RESERVED},
};

static enum addr_class classify4(uint32_t addr)
{
	for (size_t i = 0; i < ARRAY_LEN(ranges4); i++)
		if ((addr ^ ranges4[i].network) >> (32 - ranges4[i].bits) == 0)
			return ranges4[i].class;
	return ADDR_PUBLIC;
}

struct range6 {
	unsigned char network[16];
	unsigned bits;
	enum addr_class class;
};

/* IANA IPv6 Special-Purpose Address Registry; what holds an IPv4 address is looked at before.
 */
static const struct range6 ranges6[] = {
    {{0}, 128, ADDR_UNSPECIFIED},
    {{[15] = 1}, 128, ADDR_LOOPBACK},
    {{0xfc}, 7, ADDR_PRIVATE},
    {{0xfe, 0xc0}, 10, ADDR_PRIVATE},
    {{0xfe, 0x80}, 10, ADDR_LINK_LOCAL},
    {{0xff}, 8, ADDR_MULTICAST},
    {{0x20, 0x01, 0x0d, 0xb8}, 32, ADDR_RESERVED}, /* documentation */
    {{0x20, 0x01, 0, 0}, 23, ADDR_RESERVED},	   /* protocol assignments, Teredo among them */
    {{0x3f, 0xff}, 20, ADDR_RESERVED},		   /* documentation */
};

static bool in_range6(const unsigned char *addr, const unsigned char *network, unsigned bits)
{
	size_t whole = bits / 8;
	unsigned rest = bits % 8;

	if (memcmp(addr, network, whole) != 0)
		return false;
	return rest == 0 || (addr[whole] ^ network[whole]) >> (8 - rest) == 0;
}

struct carrier {
	unsigned char network[16];
	unsigned bits;
	unsigned at; /* byte where the IPv4 address is */
};

/* IPv6 addresses that stand for an IPv4 address. */
static const struct carrier carriers[] = {
    {{[10] = 0xff, [11] = 0xff}, 96, 12}, /* IPv4-mapped (RFC 4291) */
    {{[8] = 0xff, [9] = 0xff}, 96, 12},	  /* IPv4-translated (RFC 2765) */
    {{0x00, 0x64, 0xff, 0x9b}, 96, 12},	  /* NAT64 (RFC 6052) */
    {{0x20, 0x02}, 16, 2},		  /* 6to4 (RFC 3056) */
};

static uint32_t read4(const unsigned char *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static enum addr_class classify6(const unsigned char *addr)
{
	static const unsigned char zero[12];

	for (size_t i = 0; i < ARRAY_LEN(carriers); i++)
		if (in_range6(addr, carriers[i].network, carriers[i].bits))
			return classify4(read4(addr + carriers[i].at));
	for (size_t i = 0; i < ARRAY_LEN(ranges6); i++)
		if (in_range6(addr, ranges6[i].network, ranges6[i].bits))
			return ranges6[i].class;
	/* IPv4-compatible (deprecated) */
	if (memcmp(addr, zero, sizeof(zero)) == 0)
		return classify4(read4(addr + 12)) == ADDR_PUBLIC ? ADDR_RESERVED
								  : classify4(read4(addr + 12));
	/* ISATAP (RFC 5214): an IPv4 address as interface identifier of any prefix */
	if ((addr[8] & 0xfc) == 0 && addr[9] == 0 && addr[10] == 0x5e && addr[11] == 0xfe &&
	    classify4(read4(addr + 12)) != ADDR_PUBLIC)
		return classify4(read4(addr + 12));
	/* Only 2000::/3 is handed out as global unicast. */
	return addr[0] >> 5 == 1 ? ADDR_PUBLIC : ADDR_RESERVED;
}

enum addr_class addr_classify(const struct sockaddr *addr)
{
	struct sockaddr_in in;
	struct sockaddr_in6 in6;

	switch (addr->sa_family) {
	case AF_INET:
		memcpy(&in, addr, sizeof(in));
		return classify4(ntohl(in.sin_addr.s_addr));
	case AF_INET6:
		memcpy(&in6, addr, sizeof(in6));
		return classify6(in6.sin6_addr.s6_addr);
	default:
		return ADDR_UNKNOWN;
	}
}

const char *addr_class_text(enum addr_class class)
{
	switch (class) {
	case ADDR_PUBLIC:
		return "a public address";
	case ADDR_LOOPBACK:
		return "a loopback address";
	case ADDR_PRIVATE:
		return "a private address";
	case ADDR_LINK_LOCAL:
		return "a link-local address";
	case ADDR_SHARED:
		return "a carrier-grade NAT address";
	case ADDR_MULTICAST:
		return "a multicast address";
	case ADDR_UNSPECIFIED:
		return "an unspecified address";
	case ADDR_RESERVED:
		return "a reserved address";
	case ADDR_UNKNOWN:
		break;
	}
	return "an address of an unknown family";
}

bool addr_permitted(const struct sockaddr *addr, bool private_ok)
{
	switch (addr_classify(addr)) {
	case ADDR_PUBLIC:
		return true;
	case ADDR_LOOPBACK:
	case ADDR_PRIVATE:
	case ADDR_LINK_LOCAL:
	case ADDR_SHARED:
	case ADDR_RESERVED:
		return private_ok;
	case ADDR_MULTICAST:
	case ADDR_UNSPECIFIED:
	case ADDR_UNKNOWN:
		break;
	}
	return false;
}

void addr_format(char *dst, size_t size, const struct sockaddr *addr)
{
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	const char *text = NULL;
	char numeric[INET6_ADDRSTRLEN];

	if (addr->sa_family == AF_INET) {
		memcpy(&in, addr, sizeof(in));
		text = inet_ntop(AF_INET, &in.sin_addr, numeric, sizeof(numeric));
	} else if (addr->sa_family == AF_INET6) {
		memcpy(&in6, addr, sizeof(in6));
		text = inet_ntop(AF_INET6, &in6.sin6_addr, numeric, sizeof(numeric));
	}
	snprintf(dst, size, "%s", text ? text : "?");
}

bool addr_host_is_sane(const char *host)
{
	static const char allowed[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_:";
	size_t len = strlen(host);

	return len >= 1 && len <= 253 && host[0] != '-' && strspn(host, allowed) == len;
}
