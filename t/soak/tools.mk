# Builds the programs of the soak and power-cut tests: make -f t/soak/tools.mk
# The tests call it by themselves (Soak.pm), so that prove needs no make check.

B       ?= build
CC      ?= cc
T       := $(B)/t/soak
WARN    := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes \
           -Wmissing-prototypes -Wvla
FLAGS   := -std=gnu11 -O2 -g $(WARN)
LOAD    := $(wildcard t/soak/*.c)
SHIM    := $(wildcard t/power/powercut*.c)

all: $(T)/load $(T)/rebuild $(T)/fsops $(T)/powercut.so

$(T)/load: $(LOAD) $(wildcard t/soak/*.h) | $(T)
	$(CC) $(FLAGS) -o $@ $(LOAD) -lpthread

$(T)/rebuild: t/power/rebuild.c t/power/powercut.h | $(T)
	$(CC) $(FLAGS) -o $@ $< -lpthread

$(T)/fsops: t/power/fsops.c | $(T)
	$(CC) $(FLAGS) -o $@ $<

$(T)/powercut.so: $(SHIM) $(wildcard t/power/*.h) | $(T)
	$(CC) $(FLAGS) -fPIC -shared -o $@ $(SHIM) -ldl -lpthread

$(T):
	mkdir -p $@

.PHONY: all
