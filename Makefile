# agent: plain GNU make. `make` builds into build/, `make demo` and `make check` set up what they need.
# MODE=release (default) or asan (address and undefined behaviour sanitizers, build-asan/).

MODE ?= release
ifeq ($(origin CC),default)
CC := gcc
endif
B := $(if $(filter asan,$(MODE)),build-asan,build)

# ---- what each program may link: archives of ours, then libraries. Part of the security model ----
# (tests/lint/links.sh compares this with what the loader sees)
PROGRAMS := agent agent-dial agent-layer agent-fetch agent-egress agent-model agent-apply agent-test \
	    agent-change agent-publish agent-verify agent-forge agent-jail agent-probe

agent_OURS         := maintain fetch publish forge pipeline patterns base sandbox-spec
agent_LIBS         := -ljansson -lsqlite3
agent-dial_OURS    := pipeline sandbox base
agent-dial_LIBS    := -ljansson
agent-egress_OURS  := fetch pipeline sandbox base
agent-egress_LIBS  := -ljansson
agent-layer_OURS   := gitops pipeline sandbox base
agent-layer_LIBS   := -ljansson -lgit2
agent-fetch_OURS   := fetch publish gitops pipeline sandbox base
agent-fetch_LIBS   := -ljansson -lgit2
agent-model_OURS   := model http gitops pipeline sandbox base
agent-model_LIBS   := -ljansson -lgit2 -lcurl -lutf8proc -lz
agent-apply_OURS   := forge gitops pipeline sandbox base
agent-apply_LIBS   := -ljansson -lgit2 -lutf8proc -lz -lm
agent-test_OURS    := gitops pipeline sandbox base
agent-test_LIBS    := -ljansson -lgit2 -lutf8proc
agent-change_OURS  := gitops pipeline sandbox base
agent-change_LIBS  := -ljansson -lgit2 -lutf8proc
agent-publish_OURS := publish gitops pipeline sandbox base
agent-publish_LIBS := -ljansson -lgit2 -lutf8proc
agent-verify_OURS  := publish gitops pipeline sandbox base
agent-verify_LIBS  := -ljansson -lgit2 -lutf8proc
agent-forge_OURS   := forge http pipeline sandbox base
agent-forge_LIBS   := -ljansson -lcurl
# agent-jail is static, without any library but libc: musl's where there is one, see below
agent-jail_OURS    := jail sandbox-spec base-static
agent-jail_LIBS    := -static
# agent-probe runs in sandboxes that have no libraries
agent-probe_OURS   := probe jail sandbox-spec base-static
agent-probe_LIBS   := -static

# ---- flags ----------------------------------------------------------------------------------------
WARN := -Wall -Wextra -Wno-missing-field-initializers -Wpedantic -Wformat=2 -Wshadow \
	-Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wpointer-arith -Wcast-qual \
	-Wwrite-strings -Wundef -Wvla -Wswitch-enum -Wimplicit-fallthrough -Wnull-dereference \
	-Wconversion -Wno-sign-conversion -fno-common
IS_CLANG := $(shell $(CC) --version 2>/dev/null | grep -c clang)
ifeq ($(IS_CLANG),0)
INIT := -ftrivial-auto-var-init=zero
else
INIT := -ftrivial-auto-var-init=pattern
endif
VERSION := 0.1.0
CPPFLAGS += -I. -I$(B)/gen -D_GNU_SOURCE -DAGENT_VERSION='"$(VERSION)"'
ifeq ($(MODE),asan)
CFLAGS ?= -O1 -g
HARDEN := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
LDHARDEN := -fsanitize=address,undefined
CPPFLAGS += -DAGENT_SANITIZED
else
CFLAGS ?= -O2 -g
HARDEN := -D_FORTIFY_SOURCE=3 -fstack-protector-strong -fstack-clash-protection -fcf-protection=full \
	  -fPIE $(INIT)
LDHARDEN := -pie -Wl,-z,relro,-z,now,-z,noexecstack
endif
WERROR ?=
ALL_CFLAGS = -std=gnu11 $(CFLAGS) $(HARDEN) $(WARN) $(WERROR) -MMD -MP

# ---- archives: one a folder -------------------------------------------------------------------------
SRC_base     := $(wildcard pipeline/base/*.c)
SRC_pipeline := $(wildcard pipeline/*.c)
SRC_model    := $(wildcard pipeline/model/*.c)
SRC_http     := $(wildcard pipeline/http/*.c)
SRC_forge    := $(wildcard pipeline/forge/*.c)
SRC_fetch    := $(wildcard pipeline/fetch/*.c)
SRC_maintain := $(wildcard pipeline/maintain/*.c)
SRC_publish  := $(wildcard pipeline/publish/*.c)
SRC_gitops   := $(wildcard gitops/*.c)
SRC_patterns := gitops/glob.c gitops/policy_defaults.c
SRC_sandbox-spec := sandbox/jail_spec.c sandbox/jail_record.c sandbox/jail_facts.c sandbox/jail_manifest.c sandbox/jail_find.c \
		    sandbox/jail_applied.c sandbox/jail_answers.c sandbox/own_group.c sandbox/subuid.c
SRC_sandbox  := $(filter-out $(wildcard sandbox/gen_*.c) $(wildcard sandbox/jail/*.c),$(wildcard sandbox/*.c))
SRC_jail     := $(wildcard sandbox/jail/*.c)
SRC_probe    := $(wildcard sandbox/probe/*.c)
SRC_base-static := pipeline/base/signals.c pipeline/base/error.c pipeline/base/text.c pipeline/base/strbuf.c pipeline/base/mem.c \
		   pipeline/base/fdio.c pipeline/base/jsonw.c
ARCHIVES := base pipeline model http forge fetch maintain publish gitops patterns sandbox sandbox-spec jail probe base-static

obj = $(patsubst %.c,$(B)/obj/%.o,$(1))

all: $(PROGRAMS:%=$(B)/%)

define archive_rule
$(B)/lib$(1).a: $(call obj,$(SRC_$(1)))
	@rm -f $$@; ar rcs $$@ $$^
endef
$(foreach a,$(ARCHIVES),$(eval $(call archive_rule,$(a))))

$(B)/obj/%.o: %.c | $(B)/gen/filters.h $(B)/gen/jail_filter.h
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -c $< -o $@

# seccomp filters are compiled at build time by libseccomp into constant arrays: no program links it.
$(B)/gen/filters.h: sandbox/filter_self.h
GEN_OURS := pipeline/base/sha256.c pipeline/base/text.c pipeline/base/strbuf.c pipeline/base/mem.c
$(B)/gen/%.h: sandbox/gen_%.c $(GEN_OURS)
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -O1 -I. -D_GNU_SOURCE $(WARN) $(WERROR) $< $(GEN_OURS) -o $(B)/gen/gen_$* -lseccomp
	$(B)/gen/gen_$* > $@.part && mv $@.part $@
# not intermediate: make would delete them at the end and build what includes them again
.SECONDARY: $(B)/gen/filters.h $(B)/gen/jail_filter.h

define program_rule
$(B)/$(1): $$(call obj,$$(if $$(wildcard cmd/$(1).c),cmd/$(1).c,$$(wildcard cmd/$(1)/*.c))) \
	   $$(foreach a,$$($(1)_OURS),$(B)/lib$$(a).a)
	$(CC) $$(filter %.o,$$^) -o $$@ $$(if $$(filter -static,$$($(1)_LIBS)),$$(STATIC_LD),$$(LDHARDEN)) \
	    -Wl,--start-group $$(filter %.a,$$^) -Wl,--end-group -Wl,--as-needed $$(filter-out -static,$$($(1)_LIBS))
endef
STATIC_LD := -static-pie -Wl,-z,relro,-z,now,-z,noexecstack
STATIC_PROGRAMS := agent-jail agent-probe
$(foreach p,$(filter-out agent-jail $(if $(filter asan,$(MODE)),$(STATIC_PROGRAMS)),$(PROGRAMS)),$(eval $(call program_rule,$(p))))

# agent-jail is started for every command. With musl it has a fifth of the code that it has with glibc's static libc, and is
# ready to run some 0.3 ms sooner in a virtual machine, where each of the questions that glibc asks the processor at its start
# is answered by the hypervisor. Without musl-gcc, and with clang, it is linked with what there is.
MUSL_GCC := $(if $(filter 0,$(IS_CLANG)),$(shell command -v musl-gcc 2>/dev/null))
MUSL_DIR := $(if $(MUSL_GCC),$(shell sed -n 's|.*-specs "\(.*\)/musl-gcc.specs".*|\1|p' $(MUSL_GCC)))
JAIL_ALL := $(SRC_jail) $(SRC_sandbox-spec) $(SRC_base-static)
PLAIN_CFLAGS := -std=gnu11 -O2 -g -fstack-protector-strong -fcf-protection=full -fPIE $(INIT) $(WARN) $(WERROR)
ifneq ($(wildcard $(MUSL_DIR)/rcrt1.o),)
JAIL_LIBC := musl
# musl-gcc(1) knows no static position independent program: its beginning and end are named here
JAIL_CC = $(filter %ccache,$(CC)) musl-gcc -idirafter $(B)/gen/uapi
JAIL_LINK = $(filter-out %ccache,$(CC)) -nostdlib -nostartfiles $(STATIC_LD) $(MUSL_DIR)/rcrt1.o $(MUSL_DIR)/crti.o \
	    $(1) -L$(MUSL_DIR) -Wl,--start-group -lc -lgcc -Wl,--end-group $(MUSL_DIR)/crtn.o
# the kernel's headers alone out of where glibc's are too
$(B)/gen/uapi:
	@mkdir -p $@.part
	@for name in linux asm asm-generic; do \
	    for dir in /usr/include/$$($(CC) -print-multiarch) /usr/include; do \
		if [ -d $$dir/$$name ]; then ln -sfn $$dir/$$name $@.part/$$name; break; fi; done; done
	@mv -T $@.part $@
else
JAIL_LIBC := default
JAIL_CC = $(CC)
JAIL_LINK = $(CC) $(STATIC_LD) $(1)
$(B)/gen/uapi:
	@mkdir -p $@
endif
JAIL_OBJ := $(patsubst %.c,$(B)/obj-jail-$(JAIL_LIBC)/%.o,cmd/agent-jail.c $(JAIL_ALL))
$(B)/obj-jail-$(JAIL_LIBC)/%.o: %.c | $(B)/gen/jail_filter.h $(B)/gen/uapi
	@mkdir -p $(@D)
	$(JAIL_CC) $(CPPFLAGS) $(ALL_CFLAGS) -c $< -o $@
ifneq ($(MODE),asan)
$(B)/agent-jail: $(JAIL_OBJ)
	$(call JAIL_LINK,$^) -o $@
endif

# These are the same in both modes: the sanitizers do not work in a static program.
ifeq ($(MODE),asan)
$(STATIC_PROGRAMS:%=$(B)/%): $(B)/%: force
	@$(MAKE) --no-print-directory MODE=release build/$*
	@mkdir -p $(B); cp build/$* $@
force:
endif

# ---- tests ------------------------------------------------------------------------------------------
# agent-jail in which a named step can be made to fail, and what starts either by hand; static and without
# sanitizers in both modes.
FAULTS_OBJ := $(patsubst %.c,$(B)/obj-faults-$(JAIL_LIBC)/%.o,cmd/agent-jail.c $(JAIL_ALL))
$(B)/obj-faults-$(JAIL_LIBC)/%.o: %.c | $(B)/gen/jail_filter.h $(B)/gen/uapi
	@mkdir -p $(@D)
	$(JAIL_CC) $(CPPFLAGS) -DAGENT_FAULTS $(PLAIN_CFLAGS) -MMD -MP -c $< -o $@
$(B)/agent-jail-faults: $(FAULTS_OBJ)
	$(call JAIL_LINK,$^) -o $@
$(B)/jailrun: tests/lib/jailrun.c sandbox/jail_start.c $(SRC_sandbox-spec) $(SRC_base-static) $(wildcard sandbox/*.h)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(PLAIN_CFLAGS) $(filter %.c,$^) -o $@ $(STATIC_LD)
JAIL_TEST_BIN := $(B)/agent-jail-faults $(B)/jailrun
# A unit test is one program: tests/unit/<path>/test_<file>.c, with every archive it may need.
UNIT_SRC := $(shell find tests/unit -name 'test_*.c' 2>/dev/null | sort)
UNIT_BIN := $(UNIT_SRC:tests/unit/%.c=$(B)/unit/%)
$(B)/unit/%: tests/unit/%.c $(foreach a,$(filter-out base-static sandbox-spec probe,$(ARCHIVES)),$(B)/lib$(a).a)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -Itests/lib $< -o $@ $(LDHARDEN) \
	    -Wl,--start-group $(filter %.a,$^) -Wl,--end-group \
	    -lcmocka -ljansson -lgit2 -lcurl -lsqlite3 -lutf8proc -lz -lm
# Helpers of the wall tests: programs that attack from within a row, and one that starts rows.
WALL_BIN := $(patsubst tests/wall/%.c,$(B)/wall/%,$(wildcard tests/wall/*.c))
$(B)/wall/%: tests/wall/%.c $(foreach a,pipeline sandbox base,$(B)/lib$(a).a)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(ALL_CFLAGS) $< -o $@ $(LDHARDEN) \
	    -Wl,--start-group $(filter %.a,$^) -Wl,--end-group -Wl,--as-needed -ljansson -lsqlite3
unit: $(UNIT_BIN) $(WALL_BIN) $(JAIL_TEST_BIN) $(B)/agent-probe

-include $(shell find $(B)/obj $(B)/obj-jail-$(JAIL_LIBC) $(B)/obj-faults-$(JAIL_LIBC) $(B)/unit -name '*.d' 2>/dev/null)

# ---- for people: set-up included --------------------------------------------------------------------
# tests/setup installs missing distribution packages (as root or through sudo) and says so.
setup:
	@tests/setup check
demo:
	@tests/setup build
	@echo "building into $(B) …"
	@$(MAKE) --no-print-directory -s $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc)) all
	@tests/demo/run $(B)
check:
	@tests/setup check
	@tests/check
# The wall on a distribution's kernel, in an emulated machine (also part of check).
check-vm: all unit
	@tests/setup check
	@tests/run --build $(B) tests/vm/boot.py
# What needs large installs (a JVM, a database, a browser).
check-full:
	@tests/setup full
	@tests/check-full
lint: all
	@tests/run --build $(B) $$(ls tests/lint/*.sh | grep -v /deep_)
lint-deep: all
	@tests/run --build $(B) tests/lint/deep_*.sh
tables: all
	@tests/tables $(B)
bench: all
	@tests/bench/run $(B)

PREFIX ?= /usr/local
install: all
	install -D -m 755 $(B)/agent $(DESTDIR)$(PREFIX)/libexec/agent/agent
	install -m 755 $(filter-out $(B)/agent,$(PROGRAMS:%=$(B)/%)) $(DESTDIR)$(PREFIX)/libexec/agent/
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/man/man1
	ln -sf ../libexec/agent/agent $(DESTDIR)$(PREFIX)/bin/agent
	install -d $(DESTDIR)$(PREFIX)/share/agent/hooks
	install -m 755 hooks/pre-receive hooks/post-receive $(DESTDIR)$(PREFIX)/share/agent/hooks/
	install -d $(DESTDIR)$(PREFIX)/share/agent/maintain
	install -m 644 hooks/maintain/*.md $(DESTDIR)$(PREFIX)/share/agent/maintain/
	install -m 644 cmd/agent/agent.1 $(DESTDIR)$(PREFIX)/share/man/man1/
	install -d $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	$(B)/agent completion bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/agent
	chmod 644 $(DESTDIR)$(PREFIX)/share/bash-completion/completions/agent
	for unit in agent-worker.service agent-maintain.service agent-maintain.timer; do \
		sed 's|@PREFIX@|$(PREFIX)|' hooks/$$unit > $(DESTDIR)$(PREFIX)/share/agent/$$unit && \
		chmod 644 $(DESTDIR)$(PREFIX)/share/agent/$$unit || exit 1; done

fmt:
	clang-format -i $$(git ls-files '*.c' '*.h')

clean:
	rm -rf build build-asan

.PHONY: all unit setup demo check check-vm check-full lint lint-deep tables bench install fmt clean force
