#!/bin/sh
# Builds the engine for pages, target/wasm32-unknown-unknown/wasm/anabranch_wasm.wasm, with the compiler that
# can: the usual one where rustup has its standard library, else Debian's (packages rustc-web, cargo-web,
# rust-web-src, libstd-rust-web-dev and lld-19), which is not the usual one and is used for nothing else.
set -eu
TARGET=wasm32-unknown-unknown
cd "$(dirname "$0")/.."

if [ -d "$(rustc --print target-libdir --target $TARGET 2> /dev/null)" ]; then
	exec cargo build --locked --package anabranch-wasm --lib --profile wasm --target $TARGET
fi
if [ -x /usr/bin/cargo ] && [ -d "$(/usr/bin/rustc --print sysroot 2> /dev/null)/lib/rustlib/src/rust/library/std" ]; then
	# The standard library comes as sources, and is made by an option that only another channel is to have.
	export PATH="/usr/bin:$PATH" RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1
	export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=wasm-ld-19
	exec /usr/bin/cargo build --locked --package anabranch-wasm --lib --profile wasm \
		-Zbuild-std=std,panic_abort --target $TARGET
fi
echo "make lab needs a compiler for $TARGET: rustup target add $TARGET, or on Debian apt-get install" \
	"rustc-web cargo-web rust-web-src libstd-rust-web-dev lld-19" >&2
exit 1
