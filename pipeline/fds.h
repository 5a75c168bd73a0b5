/*
 * Which descriptor means what in our programs: the only definition. A stage has 0, 1
 * (/dev/null), 2 (a pipe to the supervisor, for last words) and exactly those of the numbers
 * below that its row in pipeline/stages.c lists; it refuses to start when another one is open.
 */
#ifndef PIPELINE_FDS_H
#define PIPELINE_FDS_H

enum stage_fd {
	FD_CONTROL = 3, /* unix stream socket to the supervisor: JSON lines out, answers in */
	FD_JOB = 4,    /* sealed memfd: this row's parameters, one JSON object, written by us */
	FD_OUT = 5,    /* write: the artefact that this row makes */
	FD_SECRET = 6, /* the row's secret: sealed memfd or file, read with pread */
	FD_NET = 8,    /* unix seqpacket socket to agent-dial (pipeline/dial.h) */
	FD_ISSUE = 9,  /* read: issue text */
	FD_CHANGES = 10, /* read: changes.json of this or the round before */
	FD_TALK = 11,	 /* read, append: conversation.jsonl */
	FD_TREE = 12,	 /* read: tree.json */
	FD_PATCH = 13,	 /* write: patch.diff */
	FD_LOG = 14,	 /* write: capped log of a jail, or of git push */
	FD_VERDICT = 15, /* read: verdict.json */
	FD_FACTS = 16,	 /* agent-jail: exit facts, straight to the supervisor */
	FD_SPEC =
	    17, /* agent-jail: sealed memfd, sandbox/jail_spec.h, written by the supervisor */
	FD_GO =
	    18, /* agent-jail: unix stream socket, the starter's "go" (sandbox/jail_spec.h) */
	FD_STDIN = 19,	/* agent-jail: what becomes 0 of the payload */
	FD_STDOUT = 20, /* agent-jail: what becomes 1 */
	FD_STDERR = 21, /* agent-jail: what becomes 2 */
	FD_REMOTE =
	    22, /* agent-publish: unix stream socket to git receive-pack, started outside */
	FD_EGRESS =
	    23, /* unix stream socketpair agent-jail -> agent-egress: carries one listening TCP
		   socket that agent-jail made on its own loopback (SCM_RIGHTS); nothing else */
	FD_REPLAY = 24, /* agent-model: recorded conversation of the replay provider */
	FD_FACTS2 = 25, /* agent-fetch: the second jail's FD_FACTS */
	FD_SPEC2 = 26,	/* agent-fetch: the second jail's FD_SPEC */
	FD_BOARD = 27,	/* agent-layer: memory that those who make one layer share */
	FD_SIGN = 28,	/* agent-publish: the signing key, as FD_SECRET */
	FD_TEXT = 29,	/* read: finished words for people (pull.json) */
	FD_TAKE =
	    30, /* agent-jail: unix stream socket, through which its starter reads what the
			   command changed (sandbox/jail_take.h) */
	FD_LAST = 30,
};

#endif
