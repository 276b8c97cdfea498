# Developer entry points.  `make help` lists them.
#
#   B=DIR           where everything is built (default build)
#   NGINX_SRC=DIR   a full nginx source tree: builds a private nginx from it and
#                   the module for that one (default: Debian's nginx and its
#                   nginx-dev package)

B          ?= build
NGINX_SRC  ?=
SAN        ?=

ifeq ($(origin CC),default)
CC         := gcc
endif
OPT        ?= -O2 -g
PERL       ?= perl

# The broker of `make run`, `make start`, `make stop`.
PORT       ?= 9092
DATA       ?= $(B)/data
WORKERS    ?= 2
CONFIG     ?=

# V=1 shows the commands.
V          ?=
Q          := $(if $(V),,@)

# Seconds per fuzzer, seeds per simulation, minutes of soak, jobs of prove.
T          ?= 60
SEEDS      ?= 10000
SEED       ?=
MINUTES    ?= 10
J          ?= 2

# Not empty: `make bench` measures Apache Kafka, too.
KAFKA      ?=

BABS       := $(abspath $(B))
# gcc's -Wmaybe-uninitialized is wrong about instrumented code.
SANFLAGS   := $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=undefined \
                  -fno-omit-frame-pointer \
                  $(if $(findstring gcc,$(CC)),-Wno-maybe-uninitialized))
WARN       := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes \
              -Wmissing-prototypes -Wvla
CFLAGS_ALL := -std=gnu11 -fPIC $(OPT) $(WARN) -MMD -MP $(SANFLAGS) $(CFLAGS)
LIBS       := -lz -llz4 -lzstd -lsnappy -lpthread -lm

KF_SRC     := $(wildcard codec/*.c) $(wildcard codec/gen/*.c)
KL_SRC     := $(wildcard log/*.c)
KC_SRC     := $(wildcard coordinator/*.c)
NGX_SRCS   := $(wildcard ngx_kafka_module/*.c)

KF_OBJ     := $(KF_SRC:%.c=$(B)/obj/%.o)
KL_OBJ     := $(KL_SRC:%.c=$(B)/obj/%.o)
KC_OBJ     := $(KC_SRC:%.c=$(B)/obj/%.o)
LIBFILES   := $(B)/libkc.a $(B)/libkl.a $(B)/libkf.a

# The three libraries may refer to each other only downwards, so this order of
# linking is also a check of the layers.
LINK        = $(CC) $(CFLAGS_ALL) -o $@ $< $(LIBFILES) $(LIBS) $(LDFLAGS)

UNIT       := $(patsubst %.c,$(B)/%.t,$(wildcard t/unit/*.c))
FUZZ       := $(patsubst %.c,$(B)/%.t,$(wildcard t/fuzz/fuzz_*.c))
SIM        := $(patsubst %.c,$(B)/%.t,$(wildcard t/sim/*_test.c))
SHIMS      := $(patsubst %.c,$(B)/%.so,$(wildcard t/shim/*.c))

MODULE     := $(B)/ngx_stream_kafka_module.so
NGINX      := $(if $(NGINX_SRC),$(BABS)/nginx/nginx,/usr/sbin/nginx)

export TEST_NGINX_BINARY ?= $(NGINX)
export TEST_NGINX_MODULE ?= $(abspath $(MODULE))
export TEST_BUILD        := $(BABS)
export TEST_NGINX_SAN    := $(SAN)

# As many jobs as there are processors, unless told otherwise.
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 1)
endif

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.PHONY: all help lib module gen run start stop check unit wire life power \
        client lint asan asan-check clang fuzz fuzz-replay sim soak bench fmt clean \
        tests list-tests deps-run deps-check deps-clients check-schema
.SECONDARY:


all: module lib           ## the module, and the three libraries

help:                     ## this list
	@sed -n 's/^\([a-z-]*\):.*##  *\(.*\)/  \1\t\2/p' Makefile | expand -t16
	@echo; echo "  variables: B=$(B) PORT=$(PORT) DATA=$(DATA) WORKERS=$(WORKERS)" \
	    "CONFIG='num.partitions=4 ...'"
	@echo "             NGINX_SRC=DIR SAN=address,undefined T=$(T)" \
	    "SEEDS=$(SEEDS) MINUTES=$(MINUTES)"


# ---- libraries

lib: $(LIBFILES)          ## libkf.a, libkl.a, libkc.a, without nginx

# An object is rebuilt when its flags change, not only when its sources do.
FLAGS_FILE := $(B)/obj/flags
FLAGS_NOW  := $(CC) $(CFLAGS_ALL)
ifneq ($(strip $(file <$(FLAGS_FILE))),$(strip $(FLAGS_NOW)))
$(shell mkdir -p $(B)/obj)
$(file >$(FLAGS_FILE),$(FLAGS_NOW))
endif

$(B)/obj/%.o: %.c $(FLAGS_FILE) | deps-run
	@mkdir -p $(@D)
	@echo "  CC   $@"
	$(Q)$(CC) $(CFLAGS_ALL) -c -o $@ $<

$(B)/libkf.a: $(KF_OBJ)
$(B)/libkl.a: $(KL_OBJ)
$(B)/libkc.a: $(KC_OBJ)
$(LIBFILES):
	@rm -f $@
	$(Q)ar rcs $@ $^

$(B)/t/%.t: t/%.c $(LIBFILES) $(FLAGS_FILE)
	@mkdir -p $(@D)
	@echo "  LINK $@"
	$(Q)$(LINK) -MF $(@:.t=.d) -MT $@

# With clang a fuzzer is `make fuzz`; everywhere it replays its corpus as TAP.
$(B)/t/fuzz/%.t: t/fuzz/%.c t/lib/replay.c $(LIBFILES) $(FLAGS_FILE)
	@mkdir -p $(@D)
	@echo "  LINK $@"
	$(Q)$(CC) $(CFLAGS_ALL) -DCORPUS='"$(abspath t/fuzz/corpus)/$*"' \
	    -MF $(@:.t=.d) -MT $@ -o $@ $< t/lib/replay.c $(LIBFILES) $(LIBS)

$(B)/t/shim/%.so: t/shim/%.c $(FLAGS_FILE) | deps-run
	@mkdir -p $(@D)
	@echo "  LINK $@"
	$(Q)$(CC) $(filter-out -fsanitize%,$(CFLAGS_ALL)) -shared -MF $(@:.so=.d) \
	    -MT $@ -o $@ $< -ldl -lpthread

-include $(KF_OBJ:.o=.d) $(KL_OBJ:.o=.d) $(KC_OBJ:.o=.d)
-include $(wildcard $(B)/t/*/*.d)

gen:                      ## generate codec/gen from codec/schema
	$(PERL) codec/kfgen.pl

check-schema: deps-check  ## compare our messages with kafka-clients' own
	$(PERL) codec/check-schema $(B)


# ---- the module

module: deps-run          ## the nginx module
	@CC="$(CC)" OPT="$(OPT) $(SANFLAGS) $(MODULE_CFLAGS)" \
	    tools/module "$(BABS)" "$(NGINX_SRC)"


# ---- a broker

BROKER_ENV = BROKER_NGINX="$(NGINX)" BROKER_MODULE="$(abspath $(MODULE))"

run: module               ## a broker in the foreground (PORT DATA WORKERS CONFIG)
	@$(BROKER_ENV) exec tools/broker run "$(B)/run" "$(DATA)" "$(PORT)" \
	    "$(WORKERS)" "$(CONFIG)"

start: module             ## the same in the background; prints its pid
	@$(BROKER_ENV) tools/broker start "$(B)/run" "$(DATA)" "$(PORT)" "$(WORKERS)" "$(CONFIG)"

stop:                     ## end the broker that uses DATA
	@$(BROKER_ENV) tools/broker stop "$(B)/run" "$(DATA)"


# ---- tests

PROVE = prove -It/lib --timer

# prove without a file would look for some by itself.
define run-tests
	@$(if $(strip $(2)),$(PROVE) $(1) $(2),echo "no tests for $@ yet")
endef

# Every test that some target above or below runs, for t/lint/tests.t.
list-tests:
	@printf '%s\n' $(patsubst $(B)/%,%,$(UNIT) $(FUZZ) $(SIM)) \
	    $(foreach d,lint power wire life soak client, \
	        $(wildcard t/$(d)/*.t))

tests: $(UNIT) $(FUZZ) $(SIM) $(SHIMS)

unit: deps-check $(UNIT)  ## tests of codec, log and coordinator
	$(call run-tests,-j$(J),$(UNIT))

wire: deps-check module   ## requests by hand against nginx
	$(call run-tests,-j$(J),$(wildcard t/wire/*.t))

life: deps-check module $(SHIMS) ## reload, upgrade, stop, kill, full disk
	$(call run-tests,-j$(J),$(wildcard t/life/*.t))

power: deps-check module  ## power cuts of a real broker (CUTS=200)
	$(call run-tests,-j$(J),$(wildcard t/power/*.t))

client: deps-check module ## the ecosystem's clients against nginx
	$(call run-tests,,$(wildcard t/client/*.t))

lint: deps-check all      ## layers, exports, formats, conf/, docs
	$(call run-tests,-j$(J),$(wildcard t/lint/*.t))

fuzz-replay: deps-check $(FUZZ)
	$(call run-tests,-j$(J),$(FUZZ))

# Everything runs, whatever fails before; the largest run is the last, so that
# its summary ends the output.
check: deps-check all tests ## everything; CI runs this
	@rc=0; \
	$(MAKE) B=$(B)-clang CC=clang OPT='-O1 -g' all tests || rc=1; \
	$(MAKE) B=$(B)-asan SAN=address,undefined OPT='-O1 -g' asan-check || rc=1; \
	[ $$rc = 0 ] || echo "FAILED ABOVE: the clang build or the sanitizers"; \
	$(PROVE) -j$(J) --directives $(UNIT) $(FUZZ) $(SIM) \
	    $(foreach d,lint power wire life soak client,$(sort $(wildcard t/$(d)/*.t))) \
	    || rc=1; \
	exit $$rc

asan:                     ## unit, sim and wire tests with ASan and UBSan
	$(MAKE) B=$(B)-asan SAN=address,undefined OPT='-O1 -g' ASAN_T=all \
	    asan-check

# A stock nginx takes an instrumented module if the run-time is there first.
ASAN_T     ?= short
ASAN_WIRE   = $(if $(filter all,$(ASAN_T)),$(wildcard t/wire/*.t t/life/*.t), \
                  $(wildcard t/wire/*.t))
asan-check: deps-check module $(UNIT) $(FUZZ) $(SIM)
	@rc=0; $(PROVE) -j$(J) $(UNIT) $(FUZZ) || rc=1; \
	SEEDS=30 $(PROVE) $(SIM) || rc=1; \
	$(PROVE) -j$(J) $(ASAN_WIRE) || rc=1; exit $$rc

fuzz: deps-check          ## libFuzzer on each target for T seconds
	@$(MAKE) --no-print-directory B=$(B)-fuzz CC=clang OPT='-O1 -g' \
	    SAN=address,undefined,fuzzer-no-link lib
	@tools/fuzz "$(B)-fuzz" "$(T)"

sim: $(SIM)               ## the simulator (SEEDS, or one SEED)
	@set -e; for s in $(SIM); do SEEDS=$(SEEDS) SEED=$(SEED) $$s; done

soak: deps-check module   ## producers, consumers, groups and kills for MINUTES
	@MINUTES=$(MINUTES) $(PROVE) -v $(wildcard t/soak/*.t)

bench: module lib         ## what it costs, beside the floor (KAFKA=1: and Kafka)
	@$(MAKE) -f bench/Makefile B="$(B)" NGINX="$(NGINX)" \
	    MODULE="$(abspath $(MODULE))" KAFKA="$(KAFKA)"

fmt:                      ## clang-format what it can express
	clang-format -i $(wildcard codec/*.[ch] log/*.[ch] coordinator/*.[ch])

clean:                    ## remove what was built (never a DATA elsewhere)
	rm -rf $(B) $(B)-clang $(B)-asan $(B)-fuzz


# ---- packages

deps-run:                 ## install what building and running needs
	@tools/deps run "$(NGINX_SRC)"

deps-check: deps-run      ## and what the tests need
	@tools/deps check "$(NGINX_SRC)"

deps-clients: deps-check  ## and toolchains of the client tests
	@tools/deps clients "$(NGINX_SRC)"
