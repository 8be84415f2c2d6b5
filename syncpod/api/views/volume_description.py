"""A pod's volumes, as ``describe`` prints them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from syncpod.pod import Volume, pod_to_wire


def volume_lines(volumes: Sequence[Volume]) -> list[str]:
    """Return the lines of the section."""
    if not volumes:
        return ["Volumes:  <none>"]
    lines = ["Volumes:"]
    for volume in volumes:
        rows = list(_rows(volume))
        width = max(len(title) for title, _ in rows) + 3
        lines.append(f"  {volume.name}:")
        lines += [f"    {f'{title}:':<{width}}{value}".rstrip() for title, value in rows]
    return lines


def _rows(volume: Volume) -> Iterator[tuple[str, str]]:
    if volume.host_path is not None:
        yield "Type", "HostPath (a file or directory of the node)"
        yield "Path", volume.host_path.path
        yield "HostPathType", volume.host_path.type or ""
    elif volume.persistent_volume_claim is not None:
        yield "Type", "PersistentVolumeClaim (a reference to a PersistentVolumeClaim in the same namespace)"
        yield "ClaimName", volume.persistent_volume_claim.claim_name
        yield "ReadOnly", str(volume.persistent_volume_claim.read_only).lower()
    elif volume.ephemeral is not None:
        yield "Type", "EphemeralVolume (a claim that is made and deleted with the pod)"
    elif volume.empty_dir is not None:
        yield "Type", "EmptyDir (a directory that is deleted with the pod)"
        yield "Medium", volume.empty_dir.medium
        yield "SizeLimit", volume.empty_dir.size_limit or "<unset>"
    elif volume.config_map is not None:
        yield "Type", "ConfigMap"
        yield "Name", volume.config_map.name
        yield "Optional", str(bool(volume.config_map.optional))
    elif volume.secret is not None:
        yield "Type", "Secret"
        yield "SecretName", volume.secret.secret_name
        yield "Optional", str(bool(volume.secret.optional))
    elif volume.downward_api is not None:
        yield "Type", "DownwardAPI (files made from the pod itself)"
        yield "Items", ", ".join(item.path for item in volume.downward_api.items)
    else:
        source = next((name for name in pod_to_wire(volume) if name != "name"), "none")
        yield "Type", source[:1].upper() + source[1:]
