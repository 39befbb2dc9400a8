# Everything a person types. Each target works in a fresh clone, as root and as an ordinary user, any number of times.
#
#   make build     the command with all it has, target/release/skyhaul
#   make demo      receive, record, forward and verify a damaged stream on this machine, and show what happened
#   make test      every test; ends in `N passed, N failed, N skipped` and names each skip
#   make check     what must hold before a commit, in under three minutes once built
#   make python    the Python package: a wheel in target/wheels, with the command in it, installed in .venv
#   make bench     side-by-side figures (docs/benchmarks.md)
#   make docs      the documentation site, target/site/index.html; man pages and completions
#   make install   the command, its man pages and completions, under PREFIX (default: your own ~/.local); builds for ten minutes or so
#   make deb       the Debian package, in target/deb: the command, and the station as a service
#   make fuzz T=vdif [SECONDS=60]    one fuzz target; `make fuzz` lists them
#   make clean     remove what was built

CARGO  ?= cargo
PREFIX ?= $(HOME)/.local
BINARY := target/release/skyhaul
PACKAGED := target/dist/skyhaul

.PHONY: build dist demo test check python bench docs install deb fuzz clean

build:
	$(CARGO) build --release --locked --package skyhaul-cli

# What is installed: optimised as a whole, which makes it a quarter smaller and the build longer.
dist:
	$(CARGO) build --profile dist --locked --package skyhaul-cli

# The first build for a demo leaves out what it does not show, load balancers and PNG: half of the time. Once they are built,
# they stay.
ALL := $(wildcard target/release/deps/libskyhaul_daemon-*.rlib)

demo:
	$(CARGO) build --release --locked --package skyhaul-cli $(if $(ALL),,--no-default-features)
	$(BINARY) demo

# An incremental build cuts each crate into 256 parts, and takes longer: only where `cargo test` has built for daily use are its parts used.
DAILY := $(wildcard target/debug/incremental/skyhaul_core-*)

test:
	$(if $(DAILY),,CARGO_INCREMENTAL=0) $(CARGO) xtask suite

# Packages without a unit test: `--lib` and `--bins` would build and link their test programs.
UNTESTED := $(addprefix --exclude=skyhaul-,fuzz packet-path python sim spectra)

check:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --quiet --workspace --all-targets --locked -- -D warnings
	$(CARGO) clippy --quiet --package skyhaul-cli --no-default-features --locked -- -D warnings
	$(CARGO) xtask tidy
	$(CARGO) xtask arrows
	$(CARGO) xtask pure --wasm
	RUST_TEST_THREADS=$$((2 * $$(nproc))) $(CARGO) test --quiet --workspace $(UNTESTED) --lib --bins --locked -- --skip a_thousand_histories

python:
	$(CARGO) xtask python

bench: build
	$(BINARY) bench

docs: python
	$(CARGO) xtask docs

install: dist
	install -d "$(DESTDIR)$(PREFIX)/bin" "$(DESTDIR)$(PREFIX)/share/man/man1"
	install -m 755 $(PACKAGED) "$(DESTDIR)$(PREFIX)/bin/skyhaul"
	-strip "$(DESTDIR)$(PREFIX)/bin/skyhaul"
	install -m 644 docs/reference/man/*.1 "$(DESTDIR)$(PREFIX)/share/man/man1/"
	install -d "$(DESTDIR)$(PREFIX)/share/bash-completion/completions" "$(DESTDIR)$(PREFIX)/share/zsh/site-functions" "$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d"
	install -m 644 docs/reference/completions/skyhaul.bash "$(DESTDIR)$(PREFIX)/share/bash-completion/completions/skyhaul"
	install -m 644 docs/reference/completions/_skyhaul "$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_skyhaul"
	install -m 644 docs/reference/completions/skyhaul.fish "$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/skyhaul.fish"

deb: dist
	$(CARGO) xtask deb

# `make fuzz T=vdif SECONDS=600`
fuzz:
	$(CARGO) xtask fuzz $(T) $(SECONDS)

clean:
	$(CARGO) clean
	rm -rf .venv demo
