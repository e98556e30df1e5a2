#compdef leasehold
# Completion of leasehold in zsh: source <(leasehold completion zsh), after compinit
_leasehold() {
  local line
  local -a offers
  for line in "${(@f)$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    [[ -n $line ]] && offers+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
  done
  if (( $#offers )); then
    _describe leasehold offers
  else
    _files
  fi
}
compdef _leasehold leasehold
