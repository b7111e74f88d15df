#!/bin/sh
# The first process of the virtual kernel: gives the command that `machine.py` has written into the job's
# folder a file system in which it may write anything, runs it and leaves its status beside its output.
#
# At first the root is the host's, for reading. /tmp/job is the job's folder, and each write to it comes to
# the host at once. What the command sees is the host's files under a layer of memory, which takes what is
# written, and above that the folders that are the host's for writing, too.
set -e
exec 2>>/tmp/job/boot

mkdir /tmp/upper /tmp/work /tmp/root
mount -t overlay -o lowerdir=/,upperdir=/tmp/upper,workdir=/tmp/work overlay /tmp/root
cd /tmp/root
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t devtmpfs devtmpfs dev
mkdir -p dev/pts dev/shm dev/net
mount -t devpts -o mode=620,ptmxmode=666 devpts dev/pts
mount -t tmpfs -o mode=1777 tmpfs dev/shm
mount -t tmpfs -o mode=755 tmpfs run
mkdir -m 1777 run/tmp
for link in fd fd/0:stdin fd/1:stdout fd/2:stderr; do
    ln -sf "/proc/self/${link%:*}" "dev/${link#*:}"
done
[ -e dev/net/tun ] || mknod dev/net/tun c 10 200
mkdir run/job run/host
mount -n --move /tmp/job run/job
# Not `chroot`: who enters a namespace of mounts is at its root.
pivot_root . run/host
umount -l /run/host

ip link set dev lo up

# Defines `folders` and `program`, each a function that gives its words to another one.
. /run/job/job
# A name of any characters would not do as an option: each folder has a link in the job's folder, which is
# where the kernel's own process is.
bind() {
    number=0
    for folder; do
        mkdir -p "$folder"
        mount -t hostfs -o "/proc/self/cwd/folder-$number/." none "$folder"
        number=$((number + 1))
    done
}
folders bind
start() {
    env -i "$@" < /dev/null > /run/job/stdout 2> /run/job/stderr
}
status=0
program start || status=$?
cut -d' ' -f1 /proc/uptime > /run/job/uptime
sync
echo $status > /run/job/status
# The kernel switches off when its first process ends well.
exit 0
