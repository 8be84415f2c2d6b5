#!/bin/busybox sh
# The first process of the guest: it puts a writable layer over the machine's files and hands over to guest.py there.
# Its environment has what the kernel's command line gave: ROOM, the directory of this package; PYTHON, its interpreter.
/bin/busybox mkdir -p /proc /sys /dev /lower /scratch /root
for directory in /bin; do /bin/busybox --install -s "$directory"; done
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
for module in /modules/*; do insmod "$module" || echo "init: $module cannot be loaded"; done
mount -t virtiofs -o ro machine /lower || exec sh
mount -t ext4 -o noatime /dev/vda /scratch || exec sh
mkdir -p /scratch/upper /scratch/work /scratch/tmp /scratch/modules
mount -t overlay -o lowerdir=/lower,upperdir=/scratch/upper,workdir=/scratch/work overlay /root || exec sh
chmod 1777 /scratch/tmp
for name in proc sys dev; do mount --move /$name /root/$name; done
mount --bind /scratch/tmp /root/tmp
mkdir -p /root/lib/modules /root/mnt/out
mount --bind "/root$MODULES" /root/lib/modules
exec switch_root -c /dev/hvc0 /root "$PYTHON" "$ROOM/guest.py"
