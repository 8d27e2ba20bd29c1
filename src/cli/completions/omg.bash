# Completion of omg for bash: source <(omg completions bash)
# The words are asked of omg itself, so they are those of the version at hand.
_omg() {
    local line cur=${COMP_WORDS[COMP_CWORD]} program=${1/#\~/$HOME}
    [[ $cur == = ]] && cur=
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
            :graphs)
                compopt -o filenames 2>/dev/null
                while IFS= read -r line; do COMPREPLY+=("$line"); done < <(
                    compgen -d -- "$cur"
                    compgen -f -X '!*.yaml' -- "$cur"
                    compgen -f -X '!*.yml' -- "$cur"
                )
                ;;
            :folders)
                compopt -o filenames 2>/dev/null
                while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -d -- "$cur")
                ;;
            *) COMPREPLY+=("${line%%$'\t'*}") ;;
        esac
    done < <("$program" __complete bash -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _omg omg
