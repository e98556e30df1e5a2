# Completion of leasehold in bash: source <(leasehold completion bash)
_leasehold() {
  local IFS=$'\n'
  COMPREPLY=($("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f1))
}
complete -o default -F _leasehold leasehold
