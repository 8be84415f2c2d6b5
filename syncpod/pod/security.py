"""Security contexts of pods and containers."""

from syncpod.pod.enums import (
    AppArmorProfileType,
    PodFSGroupChangePolicy,
    PodSELinuxChangePolicy,
    ProcMountType,
    SeccompProfileType,
    SupplementalGroupsPolicy,
)
from syncpod.pod.wire import Flag, Int64, Model


class Capabilities(Model):
    """Linux capabilities added to and dropped from the runtime's default set."""

    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


class SELinuxOptions(Model):
    """The SELinux label of a process."""

    user: str = ""
    role: str = ""
    type: str = ""
    level: str = ""


class WindowsSecurityContextOptions(Model):
    """Settings that exist on Windows only."""

    gmsa_credential_spec_name: str | None = None
    gmsa_credential_spec: str | None = None
    run_as_user_name: str | None = None
    host_process: Flag | None = None


class SeccompProfile(Model):
    """The seccomp profile, by kind and, for Localhost, by file."""

    type: SeccompProfileType | None = None
    localhost_profile: str | None = None


class AppArmorProfile(Model):
    """The AppArmor profile, by kind and, for Localhost, by name."""

    type: AppArmorProfileType | None = None
    localhost_profile: str | None = None


class Sysctl(Model):
    """A kernel parameter of the pod's namespaces."""

    name: str = ""
    value: str = ""


class SecurityContext(Model):
    """Privileges of one container, which override the pod's."""

    capabilities: Capabilities | None = None
    privileged: Flag | None = None
    se_linux_options: SELinuxOptions | None = None
    windows_options: WindowsSecurityContextOptions | None = None
    run_as_user: Int64 | None = None
    run_as_group: Int64 | None = None
    run_as_non_root: Flag | None = None
    read_only_root_filesystem: Flag | None = None
    allow_privilege_escalation: Flag | None = None
    proc_mount: ProcMountType | None = None
    seccomp_profile: SeccompProfile | None = None
    app_armor_profile: AppArmorProfile | None = None


class PodSecurityContext(Model):
    """Privileges and identity that all containers of a pod inherit."""

    se_linux_options: SELinuxOptions | None = None
    windows_options: WindowsSecurityContextOptions | None = None
    run_as_user: Int64 | None = None
    run_as_group: Int64 | None = None
    run_as_non_root: Flag | None = None
    supplemental_groups: tuple[Int64, ...] = ()
    supplemental_groups_policy: SupplementalGroupsPolicy | None = None
    fs_group: Int64 | None = None
    sysctls: tuple[Sysctl, ...] = ()
    fs_group_change_policy: PodFSGroupChangePolicy | None = None
    seccomp_profile: SeccompProfile | None = None
    app_armor_profile: AppArmorProfile | None = None
    se_linux_change_policy: PodSELinuxChangePolicy | None = None
