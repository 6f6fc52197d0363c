# tarn(1) completion                                       -*- shell-script -*-
#
# Verbs, options and their choices as the help of the program lists them: whatever it knows is completed. Other words are
# files.

_tarn_verbs() { # WORD...: those of tarn, or of one of its verbs
    command "${COMP_WORDS[0]}" "$@" 2> /dev/null | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p'
}

_tarn_options() { # WORD...: each with what stands for its value
    command "${COMP_WORDS[0]}" "$@" --help 2> /dev/null | sed -n 's/^  \(   \|-.,\) --\(\[no-\]\)\{0,1\}\([^ ]*\).*/--\3/p'
}

_tarn() {
    local word=${COMP_WORDS[COMP_CWORD]} option='' verb=(${COMP_WORDS[1]-}) choices
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        COMPREPLY=($(compgen -W "$(_tarn_verbs help) help" -- "$word"))
        return
    fi
    if [[ ${verb[0]} == help ]]; then
        COMPREPLY=($(compgen -W "$(_tarn_verbs help)" -- "$word"))
        return
    fi
    if [[ ${verb[0]} == bench || ${verb[0]} == fabric || ${verb[0]} == space ]]; then
        if ((COMP_CWORD == 2)); then
            COMPREPLY=($(compgen -W "$(_tarn_verbs "${verb[0]}" --help)" -- "$word"))
            return
        fi
        verb+=("${COMP_WORDS[2]}")
    fi
    if [[ $word == = ]]; then # readline takes --option=value for three words
        option=${COMP_WORDS[COMP_CWORD - 1]} word=''
    elif [[ ${COMP_WORDS[COMP_CWORD - 1]} == = ]]; then
        option=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    if [[ $option == --* ]]; then
        choices=$(_tarn_options "${verb[@]}" | sed -n "s/^$option=\(.*|.*\)/\1/p" 2> /dev/null)
        COMPREPLY=($(compgen -W "${choices//|/ }" -- "$word"))
    elif [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W "$(_tarn_options "${verb[@]}" | sed 's/=.*/=/')" -- "$word"))
        [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2> /dev/null
    fi
    return 0
}

complete -o bashdefault -o default -F _tarn tarn
