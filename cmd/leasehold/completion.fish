# Completion of leasehold in fish: leasehold completion fish | source
function __leasehold_complete
    set -l words (commandline -opc)
    set -l last (commandline -ct)
    $words[1] __complete $words[2..-1] "$last" 2>/dev/null
end
complete -c leasehold -a '(__leasehold_complete)'
