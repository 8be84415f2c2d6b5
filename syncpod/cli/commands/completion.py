"""``syncpod completion``: the shells' scripts for completion."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from syncpod.cli.command_table import COMPLETE
from syncpod.cli.console import say
from syncpod.cli.failure import BadInput

_BASH: Final = """\
_syncpod() {
    local IFS=$'\\n' word=${COMP_WORDS[COMP_CWORD]} found
    found=$("${COMP_WORDS[0]}" @COMPLETE@ "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null </dev/null)
    compopt +o default +o nospace 2>/dev/null
    if [[ $found == :files ]]; then
        compopt -o default 2>/dev/null
        COMPREPLY=()
        return
    fi
    COMPREPLY=($found)
    # Bash takes what precedes the last = for a word of its own: do not repeat it.
    if [[ $COMP_WORDBREAKS == *=* && $found == --*=* ]]; then
        COMPREPLY=("${COMPREPLY[@]#--*=}")
    fi
    [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
}
complete -o default -F _syncpod syncpod
"""

_ZSH: Final = """\
#compdef syncpod
_syncpod() {
    local -a found
    found=("${(@f)$("${words[1]}" @COMPLETE@ "${(@)words[2,CURRENT]}" 2>/dev/null </dev/null)}")
    if [[ ${found[1]} == :files ]]; then
        _files
    elif [[ -n ${found[1]} ]]; then
        compadd -S '' -- ${(M)found:#*=}
        compadd -- ${found:#*=}
    fi
}
if [[ ${funcstack[1]} == _syncpod ]]; then
    _syncpod "$@"
else
    compdef _syncpod syncpod
fi
"""

_FISH: Final = """\
function __syncpod_complete
    set -l words (commandline -opc)
    set -l found ($words[1] @COMPLETE@ $words[2..-1] (commandline -ct) 2>/dev/null </dev/null)
    if test "$found" = :files
        __fish_complete_path (commandline -ct)
    else
        string join \\n -- $found
    end
end
complete -c syncpod -f -a '(__syncpod_complete)'
"""

SCRIPTS: Final = {
    shell: script.replace("@COMPLETE@", COMPLETE) for shell, script in (("bash", _BASH), ("zsh", _ZSH), ("fish", _FISH))
}


def completion(
    shell: Annotated[str, typer.Argument(metavar="bash|zsh|fish", hidden=True, show_default=False)],
) -> None:
    """Print a script with which a shell completes command lines.

    It completes commands, flags and their values, and the names of this machine's node and of its pods, containers,
    ConfigMaps and Secrets. Their names are read from the node's disk, not from a server; an unreadable file is left
    out. After `fleet` or `--fleet`, names are those of the fleet, if its server answers within two seconds.
    """
    if shell not in SCRIPTS:
        raise BadInput(f"{shell}: must be one of {', '.join(SCRIPTS)}")
    say(SCRIPTS[shell].rstrip("\n"))
