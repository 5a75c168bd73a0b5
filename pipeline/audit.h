/*
 * The audit of a jail: what agent-jail found to be applied (sandbox/jail_applied.h) as a JSON
 * artefact, and the artefact as text for people. Pure.
 *
 *	{"kind":"audit","version":1,"backend":name,"whole":bool,"command":[word],"cwd":path,"environment":["NAME=VALUE"],
 *	"mounts":[{"target","type","source","root","flags","options"}],
 *	"descriptors":[{"number","access","target"}],
 *	"devices":[{"path","kind","number","mode"}],"links":[{"path","target"}],
 *	"ids":{"inside":{"uid","gid","groups"},"outside":{"uid","gid"},"uid_map":[line],"gid_map":[line]},
 *	"capabilities":{"inheritable","permitted","effective","bounding","ambient","securebits"},
 *	"no_new_privs":bool,"umask":text,"namespaces":{name:id},"interfaces":[name],"listening":[address],
 *	"sockets":text,"rlimits":{name:{"soft","hard"}},"cgroup":{file:value},
 *	"landlock":{"abi":N,"handled":[right],"scoped":[scope],"rules":[{"path","rights":[right]}]},
 *	"seccomp":{"mode":N,"filters":N,"digest":hex,"known":bool,"allow":[call],
 *	"depends":[{"call","on"}],"refused":[{"call","error"}],"others":"ENOSYS","foreign":"kill"},
 *	"rest":[text],"host":{the same of the sandbox, as the host's kernel sees it}}
 *
 * "host" is there where the payload has a kernel of its own: then all but "outside" and "cgroup" is what that
 * kernel says. "whole" is false when the list had no room for all, or "host" is missing there. "rest" names
 * what is not read back at all. "known" is false when the program's digest is
 * not that of the filter that this build knows: then the calls are not listed.
 */
#ifndef PIPELINE_AUDIT_H
#define PIPELINE_AUDIT_H

#include <stddef.h>

struct error;
struct json;
struct strbuf;

#define AUDIT_MAX (4 << 20) /* bytes of an audit.json */

/* From applied records as FD_FACTS has them. New; NULL with err (ERROR_FAILED) when malformed. */
struct json *audit_parse(const char *data, size_t len, struct error *err);

/* As text, escaped (law L12), a section a kind. */
void audit_print(const struct json *audit, struct strbuf *out);

#endif
