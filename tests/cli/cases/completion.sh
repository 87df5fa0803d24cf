# What the shell proposes: commands, options, and the keys that --set and a search take. Short options are in the man page.
source <("$RECKON" completion bash)
try() { COMP_WORDS=("$RECKON" "$@"); COMP_CWORD=$#; _reckon; printf '%s ' "${COMPREPLY[@]}"; echo; }
try pl
try train --se
try train --set train.optimizer.l
try inspect -s embedding.di
try tune --range model.cross_
"$RECKON" manual | grep -A1 '^\.B \\-[a-z], \\-\\-set' | head -2
