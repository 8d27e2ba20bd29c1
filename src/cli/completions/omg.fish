# Completion of omg for fish: omg completions fish > ~/.config/fish/completions/omg.fish
# The words are asked of omg itself, so they are those of the version at hand.
function __omg_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for line in (command $words[1] __complete fish -- $words[2..-1] "$current" 2>/dev/null)
        switch $line
            case ':graphs'
                __fish_complete_suffix .yaml
            case ':folders'
                __fish_complete_directories "$current" ''
            case '*'
                echo $line
        end
    end
end
complete -c omg -f -a '(__omg_complete)'
