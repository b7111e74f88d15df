#!/usr/bin/env bash
# Builds the virtual kernel: a user-mode Linux in time-travel mode, from the distribution's kernel sources.
#
# Usage: kernel/build.sh FOLDER
# Leaves FOLDER/linux and FOLDER/version; what it needs on the way is in FOLDER/work. Nothing is installed. A
# build that was interrupted goes on where it was. `ANABRANCH_KERNEL_SOURCE` names sources of one's own (a
# `linux-*.tar.*`, or a folder of them, which stays as it is), JOBS=N how many compilers run at once.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
out=$(cd "$1" && pwd)
work=$out/work
jobs=${JOBS:-$(nproc)}

fail() {
    echo "make kernel: $*" >&2
    exit 1
}

recipe=$(cat "$here/build.sh" "$here"/config* "$here"/*.patch <(echo "${ANABRANCH_KERNEL_SOURCE:-}") | sha256sum)
if [ -x "$out/linux" ] && [ "$(cat "$out/recipe" 2> /dev/null)" = "$recipe" ]; then
    echo "the virtual kernel is there: $out/linux, $(cat "$out/version")"
    exit 0
fi
[ "$(uname -sm)" = "Linux x86_64" ] || fail "a user-mode Linux can be built on Linux for x86-64 only, not on $(uname -sm)"
for tool in gcc make patch xz bc; do
    command -v "$tool" > /dev/null || fail "it needs \`$tool\`; Debian's and Ubuntu's packages for all of it: gcc make patch xz-utils bc flex bison"
done

# Two builds at once would spoil each other.
mkdir -p "$work"
exec 9> "$work/lock"
flock --nonblock 9 || fail "another build in $out is under way"

# The packages of the distribution that have these names, unpacked into $work/NAME without being installed.
unpack_packages() {
    local part=$work/packages.part
    rm -rf "$part" && mkdir -p "$part/root"
    (cd "$part" && apt-get -qq download "$@") || return 1
    local file
    for file in "$part"/*.deb; do dpkg-deb -x "$file" "$part/root"; done
    cp -rlf "$part/root/." "$work/root/"
    rm -rf "$part"
}
mkdir -p "$work/root"

# The newest of the distribution's `linux-source-VERSION`.
newest_package() {
    apt-cache search --names-only '^linux-source-[0-9]' 2> /dev/null \
        | sed -nE 's/^linux-source-([0-9.]+) .*/\1/p' | sort -V | tail -1
}

# A folder that is not there is no failure.
find_tarball() {
    { find "$work/root/usr/src" /usr/src -maxdepth 3 -name "linux-source-$1.tar.*" 2> /dev/null || true; } | sort | head -1
}

# Unpacks the archive, or copies the folder, into another one.
# Kconfig reads all of its files; of the rest much is for other machines.
unpack() {
    local less=(
        --exclude='*/Documentation/*.rst' --exclude='*/drivers/gpu/drm/*.[ch]' --exclude='*/drivers/net/*/*.[ch]'
        --exclude='*/drivers/media/*.[ch]' --exclude='*/sound/*.[ch]' --exclude='*/tools/testing' --exclude='*/arch/*/boot/dts'
    )
    if [ -d "$1" ]; then
        tar -c --exclude-vcs "${less[@]}" -C "$1" . | tar -x -C "$2"
    else
        tar -xf "$1" -C "$2" --strip-components=1 "${less[@]}"
    fi
}

# The patches that these sources need.
changes() {
    echo virtual.patch
    if grep -q HOST_FP_SIZE "$1/arch/x86/um/user-offsets.c"; then echo before-6.13.patch; fi
}

# Of what is unpacked: the patch and where it comes from.
sources=$(cat "$here"/*.patch <(echo "${ANABRANCH_KERNEL_SOURCE:-}") | sha256sum)
if [ "$(cat "$work/linux/.unpacked" 2> /dev/null)" != "$sources" ]; then
    tarball=${ANABRANCH_KERNEL_SOURCE:-}
    if [ -z "$tarball" ]; then
        command -v apt-get dpkg-deb > /dev/null || fail "this distribution has no packages \`linux-source-VERSION\` as Debian and Ubuntu do; name a linux-*.tar.xz of kernel.org: ANABRANCH_KERNEL_SOURCE=FILE make kernel"
        version=$(newest_package)
        [ -n "$version" ] || fail "no package \`linux-source-VERSION\` is known here; \`apt-get update\` as root finds those that there are, or ANABRANCH_KERNEL_SOURCE=FILE names a linux-*.tar.xz"
        tarball=$(find_tarball "$version")
        if [ -z "$tarball" ]; then
            echo "fetching linux-source-$version"
            unpack_packages "linux-source-$version" || fail "the package linux-source-$version could not be fetched; \`apt-get update\` as root may help"
            tarball=$(find_tarball "$version")
        fi
    fi
    [ -r "$tarball" ] || fail "there are no sources in \`$tarball\`"
    echo "unpacking $(basename "$tarball")"
    rm -rf "$work/linux" "$work/linux.part" && mkdir -p "$work/linux.part"
    unpack "$tarball" "$work/linux.part"
    for change in $(changes "$work/linux.part"); do
        patch --quiet --directory="$work/linux.part" --strip=1 < "$here/$change" \
            || fail "$change does not fit $(basename "$tarball"); it is for Linux 6.12 to 7.3"
    done
    echo "$sources" > "$work/linux.part/.unpacked"
    mv "$work/linux.part" "$work/linux"
fi

# flex and bison translate the grammar of Kconfig.
for tool in flex bison m4; do
    if ! command -v "$tool" > /dev/null && [ ! -x "$work/root/usr/bin/$tool" ]; then
        echo "fetching flex and bison"
        unpack_packages flex bison m4 libsigsegv2 || fail "it needs \`flex\` and \`bison\`"
    fi
done
export PATH=$PATH:$work/root/usr/bin
if [ -d "$work/root/usr/share/bison" ]; then
    export BISON_PKGDATADIR=$work/root/usr/share/bison
    M4=$(command -v m4)
    export M4
    export LD_LIBRARY_PATH=$work/root/usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi

# Nothing of this machine or of today is in the binary.
export KBUILD_BUILD_USER=anabranch KBUILD_BUILD_HOST=anabranch KBUILD_BUILD_TIMESTAMP=@0 KBUILD_BUILD_VERSION=1
kernel_make() {
    make --no-print-directory --directory="$work/linux" ARCH=um SUBARCH=x86_64 "$@"
}
log=$work/log
cat "$here/config" "$here/config.some" > "$work/config"
kernel_make KCONFIG_ALLCONFIG="$work/config" allnoconfig > "$log" 2>&1 || fail "the configuration failed; the end of $log: $(tail -3 "$log")"
missing=$(grep '^CONFIG_' "$here/config" | grep -vxFf "$work/linux/.config" || true)
[ -z "$missing" ] || fail "these sources do not take $(echo $missing)"

echo "compiling with $jobs compilers at once (5 to 10 CPU-minutes); the log is $log"
if ! kernel_make --jobs="$jobs" linux 2>&1 | tee "$log" \
    | awk '/^  (CC|AR|LD) / { if (++count % 100 == 0) { printf "  %d files\n", count; fflush() } }'; then
    fail "it does not compile: $(grep -m3 -E 'error|Error' "$log"); all of it is in $log"
fi

strip -o "$out/linux.part" "$work/linux/linux"
kernel_make --silent kernelrelease > "$out/version"
rm -f "$out/recipe"
mv "$out/linux.part" "$out/linux"
echo "$recipe" > "$out/recipe"
echo "the virtual kernel is there: $out/linux, $(cat "$out/version"), $(stat -c %s "$out/linux") B"
