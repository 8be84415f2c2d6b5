"""Bugs in the modules for a node's files: objects, volumes and journal, and the system calls that they use."""

from qa.planted.plant import Plant

OBJECTS = "syncpod/objects"
VOLUMES = "syncpod/volumes"
KERNEL = "syncpod/kernel"
JOURNAL = "syncpod/journal"

BUGS = (
    Plant(
        name="either-name-is-enough",
        room=OBJECTS,
        file="syncpod/objects/store.py",
        before="return not syntax.dns_label(ref.namespace) and not syntax.dns_subdomain(ref.name)",
        after="return not syntax.dns_label(ref.namespace) or not syntax.dns_subdomain(ref.name)",
        harm="A reference to ../../etc/x reads a file outside of the store.",
        tests=("tests/objects/test_store.py",),
    ),
    Plant(
        name="immutable-by-the-new-one",
        room=OBJECTS,
        file="syncpod/objects/replacing.py",
        before="    if not held.immutable:",
        after="    if not wanted.immutable:",
        harm="An immutable Secret is changed by a manifest that leaves `immutable` out.",
        tests=("tests/objects/test_replacing.py",),
    ),
    Plant(
        name="one-file-the-same-is-enough",
        room=VOLUMES,
        file="syncpod/volumes/writer.py",
        before="return all((directory / path).read_bytes() == file.data",
        after="return any((directory / path).read_bytes() == file.data",
        harm="A volume goes on showing an old password, where the new one is as long and another key has not changed.",
        tests=("tests/volumes/test_writer.py",),
    ),
    Plant(
        name="dots-in-the-middle",
        room=VOLUMES,
        file="syncpod/volumes/payload.py",
        before='if ".." in names:',
        after='if names[0] == "..":',
        harm="An item with the path a/../../x writes outside of its volume.",
        tests=("tests/volumes/test_payload.py",),
    ),
    Plant(
        name="all-mounts-are-ours",
        room=VOLUMES,
        file="syncpod/volumes/empty_dir.py",
        before="] in _OURS:",
        after="] != _OURS:",
        harm="What somebody else has mounted in a pod's volume is unmounted with the pod.",
        tests=("tests/volumes/test_empty_dir.py", "tests/node/test_pod_volumes.py"),
    ),
    Plant(
        name="symlinks-lead-out",
        room=KERNEL,
        file="syncpod/kernel/beneath.py",
        before="_RESOLVE_BENEATH = 0x08 | 0x02",
        after="_RESOLVE_BENEATH = 0x02",
        harm="A symlink in a volume leads a subPath, a copy or an env file to any file of the machine.",
        tests=("tests/kernel/test_beneath.py",),
    ),
    Plant(
        name="another-mount-emptied",
        room=KERNEL,
        file="syncpod/kernel/tree_removal.py",
        before="if _mount_of(child) != mount:",
        after="if _mount_of(top) != mount:",
        harm="A deleted pod takes with it all files of what is still mounted in its directory.",
        tests=("tests/node/test_directories.py",),
    ),
    Plant(
        name="one-regular-span-is-a-pattern",
        room=JOURNAL,
        file="syncpod/journal/patterns.py",
        before="    return all(abs(each - usual)",
        after="    return any(abs(each - usual)",
        harm="A container that ends at random is said to end every so many minutes.",
        tests=("tests/journal/test_patterns.py",),
    ),
)
