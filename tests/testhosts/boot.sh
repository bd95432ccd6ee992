#!/bin/sh
# Become process 1 of a test host: mount its file system, then hand over to systemd.
# Runs in new pid, mount, uts, ipc and cgroup namespaces and in the host's network namespace.
# usage: boot.sh NAME IMAGE FOLDER BOOT_ID [SHARED...]    (SHARED: folders of this machine, read-only)
set -eu
name=$1 image=$2 folder=$3 boot=$4
shift 4
root=$folder/root
mount --make-rprivate /
mkdir -p "$root"
mount -t overlay overlay -o "lowerdir=$image,upperdir=$folder/disk/upper,workdir=$folder/disk/work" "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755,size=64m tmpfs "$root/run"
mkdir -p "$root/run/host"
echo specbench-testhost > "$root/run/host/container-manager"
echo "$boot" > "$root/run/host/boot-id"
mount --bind "$root/run/host/boot-id" "$root/proc/sys/kernel/random/boot_id"

mount -t tmpfs -o mode=755,size=1m tmpfs "$root/dev"
for node in "null 3" "zero 5" "full 7" "random 8" "urandom 9"; do
    mknod -m 666 "$root/dev/${node% *}" c 1 "${node#* }"
done
mknod -m 666 "$root/dev/tty" c 5 0
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
for stream in "stdin 0" "stdout 1" "stderr 2"; do
    ln -s "/proc/self/fd/${stream#* }" "$root/dev/${stream% *}"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777,size=32m tmpfs "$root/dev/shm"

for shared in "$@"; do
    mkdir -p "$root$shared"
    mount --bind "$shared" "$root$shared"
    mount -o remount,bind,ro "$root$shared"
done

mount -t sysfs -o ro sysfs "$root/sys"
if [ "$(stat -fc %T /sys/fs/cgroup)" = cgroup2fs ]; then
    mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
else # systemd's own hierarchy beside a cgroup2 without controllers
    mount -t tmpfs -o mode=755,size=1m tmpfs "$root/sys/fs/cgroup"
    mkdir "$root/sys/fs/cgroup/systemd" "$root/sys/fs/cgroup/unified" "$root/sys/fs/cgroup/cpuacct"
    mount -t cgroup -o none,xattr,name=systemd cgroup "$root/sys/fs/cgroup/systemd"
    mount -t cgroup -o xattr,cpuacct cgroup "$root/sys/fs/cgroup/cpuacct"
    ln -s cpuacct "$root/sys/fs/cgroup/cpu"
    mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup/unified"
fi
hostname "$name"
cd "$root"
mkdir -p .old
pivot_root . .old
umount -l .old
exec env -i container=specbench PATH=/usr/sbin:/usr/bin:/sbin:/bin /sbin/init
