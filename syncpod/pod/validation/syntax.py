"""The syntax of names: each check returns the mistake in a few words, or an empty text."""

import re
from ipaddress import IPv6Address, ip_address

_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_DNS_LABEL = re.compile(_LABEL)
_DNS_SUBDOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_QUALIFIED = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
_PORT_NAME = re.compile(r"[-a-z0-9]+")
_ENV_NAME = re.compile(r"[ -<>-~]+")
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_UNDERSCORED_LABEL = r"_?[a-z0-9](?:[-_a-z0-9]*[a-z0-9])?"
_UNDERSCORED_SUBDOMAIN = re.compile(rf"{_UNDERSCORED_LABEL}(?:\.{_UNDERSCORED_LABEL})*")
_HEADER_NAME = re.compile(r"[-A-Za-z0-9]+")
_SYSCTL_SEGMENT = r"[a-z0-9](?:[-_a-z0-9]*[a-z0-9])?"
_SYSCTL = re.compile(rf"(?:{_SYSCTL_SEGMENT}[./])*{_SYSCTL_SEGMENT}")


def dns_label(value: str) -> str:
    """Check a lower-case RFC 1123 label: the names of containers, volumes, namespaces and hosts."""
    if len(value) > 63:
        return "must be no more than 63 characters"
    if not _DNS_LABEL.fullmatch(value):
        return "must consist of lower-case letters, digits and '-', and start and end with a letter or digit"
    return ""


def dns_subdomain(value: str) -> str:
    """Check a lower-case RFC 1123 subdomain: the names of pods and of most other objects."""
    if len(value) > 253:
        return "must be no more than 253 characters"
    if not _DNS_SUBDOMAIN.fullmatch(value):
        return "must consist of lower-case letters, digits, '-' and '.', and start and end with a letter or digit"
    return ""


def prefix_of_names(value: str) -> str:
    """Check a generateName: a subdomain, or the beginning of one that ends in `-`."""
    return dns_subdomain(f"{value[:-2]}a" if len(value) > 1 and value.endswith("-") else value)


def search_domain(value: str) -> str:
    """Check a domain of a resolver's search list: underscores, a trailing dot, and `.` alone are allowed."""
    name = value.removesuffix(".")
    if value == ".":
        return ""
    if len(name) > 253:
        return "must be no more than 253 characters"
    if not _UNDERSCORED_SUBDOMAIN.fullmatch(name):
        return "must consist of lower-case letters, digits, '-', '_' and '.', and end with a letter or digit"
    return ""


def qualified_name(value: str) -> str:
    """Check a label or annotation key: a name, optionally after a DNS subdomain and `/`."""
    prefix, slash, name = value.rpartition("/")
    if slash and (not prefix or dns_subdomain(prefix)):
        return "must have a lower-case DNS subdomain before its '/'"
    if not name or len(name) > 63:
        return "must have a name of 1 to 63 characters" + (" after its '/'" if slash else "")
    if not _QUALIFIED.fullmatch(name):
        return "must consist of letters, digits, '-', '_' and '.', and start and end with a letter or digit"
    return ""


def label_value(value: str) -> str:
    """Check a label's value, which may be empty."""
    if len(value) > 63:
        return "must be no more than 63 characters"
    if value and not _QUALIFIED.fullmatch(value):
        return "must consist of letters, digits, '-', '_' and '.', and start and end with a letter or digit"
    return ""


def uid(value: str) -> str:
    """Check a pod's UID, which names directories and cgroups; an API server chooses UUIDs itself."""
    if len(value) > 128 or not _QUALIFIED.fullmatch(value):
        return "must be no more than 128 letters, digits, '-', '_' and '.', with a letter or digit at either end"
    return ""


def port_name(value: str) -> str:
    """Check a port's name, an IANA service name."""
    if len(value) > 15:
        return "must be no more than 15 characters"
    if not _PORT_NAME.fullmatch(value) or not any("a" <= character <= "z" for character in value):
        return "must consist of lower-case letters, digits and '-', with at least one letter"
    if "--" in value or value[0] == "-" or value[-1] == "-":
        return "must not have a '-' at either end or two in a row"
    return ""


def port_number(value: int) -> str:
    """Check a port's number."""
    return "" if 1 <= value <= 65535 else "must be between 1 and 65535"


def env_name(value: str) -> str:
    """Check a variable's name, by the relaxed rule that is the default since 1.32."""
    return "" if _ENV_NAME.fullmatch(value) else "must consist of printable ASCII characters other than '='"


def header_name(value: str) -> str:
    """Check the name of an HTTP header."""
    return "" if _HEADER_NAME.fullmatch(value) else "must consist of letters, digits and '-'"


def config_key(value: str) -> str:
    """Check a key of a ConfigMap or Secret."""
    if len(value) > 253:
        return "must be no more than 253 characters"
    if not _CONFIG_KEY.fullmatch(value) or value in (".", "..") or value.startswith(".."):
        return "must consist of letters, digits, '-', '_' and '.', and not start with '..'"
    return ""


def sysctl_name(value: str) -> str:
    """Check a sysctl's name, with dots or slashes."""
    if len(value) > 253 or not _SYSCTL.fullmatch(value):
        return "must be a sysctl such as net.ipv4.ip_forward, of no more than 253 characters"
    return ""


def dotted_sysctl(value: str) -> str:
    """Return a sysctl's name with dots as separators; if its first separator is a slash, the two are swapped."""
    first = next((character for character in value if character in "./"), ".")
    return value if first == "." else value.translate(str.maketrans("./", "/."))


def ip(value: str) -> str:
    """Check an IP address of either family, without a zone, and not IPv4-mapped."""
    try:
        address = ip_address(value)
    except ValueError:
        return "must be an IP address"
    if isinstance(address, IPv6Address) and (address.scope_id is not None or address.ipv4_mapped is not None):
        return "must be an IP address, with no zone and no IPv4 address inside an IPv6 one"
    return ""


def no_backsteps(value: str) -> str:
    """Check that a path does not contain `..`."""
    return "must not contain '..'" if ".." in value.split("/") else ""


def descending(value: str) -> str:
    """Check that a path is relative and does not contain `..`."""
    return "must be a relative path" if value.startswith("/") else no_backsteps(value)


def projected_path(value: str) -> str:
    """Check the path of a volume's file: relative, without `..`, and not a name that the volume itself uses."""
    if not value:
        return "required"
    return descending(value) or ("must not start with '..'" if value.startswith("..") else "")


def file_mode(value: int) -> str:
    """Check the permission bits of a file."""
    return "" if 0 <= value <= 0o777 else "must be between 0 and 0777 (in JSON: 0 and 511)"
