#compdef omg
# Completion of omg for zsh: omg completions zsh > "${fpath[1]}/_omg", or source <(omg completions zsh)
# The words are asked of omg itself, so they are those of the version at hand.
_omg() {
    local line found=1
    local -a lines described
    lines=("${(@f)$("${(Q)words[1]/#\~/$HOME}" __complete zsh -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
    for line in "${lines[@]}"; do
        case $line in
            '') ;;
            :graphs) _files -g '*.(yaml|yml)' && found=0 ;;
            :folders) _files -/ && found=0 ;;
            *) described+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}") ;;
        esac
    done
    (( ${#described} )) && _describe -t values omg described && found=0
    return found
}
if [[ ${funcstack[1]} == _omg ]]; then
    _omg "$@"
else
    compdef _omg omg
fi
