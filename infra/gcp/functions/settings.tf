# The settings of the program, in one map. settings.json is the table of them, which functions/settings writes:
# go test ./functions/settings -run TestTerraform -update. What the program would refuse is refused here, in its words.

variable "settings" {
  description = "Settings of the program, by the names of their variables, such as { LEASEHOLD_TENANT_RATE = 100 }: docs/reference/settings.md lists them. A list is a text with commas. What is null or not there has the program's default."
  type        = map(string)
  default     = {}
  nullable    = false
}

locals {
  table = jsondecode(file("${path.module}/settings.json"))
  given = { for name, value in var.settings : name => value if value != null }
  set   = { for name, value in local.given : name => value if value != "" } # what is empty counts as not set

  # A name is most like that with which it shares most letters and pairs of letters.
  unknown = [for name in keys(local.given) : name if !contains(concat(keys(local.table.settings), keys(local.table.refused)), name)]
  # A name in other letters, or without what all begin with, of a setting that stands in the map by its own name, too.
  meant   = { for name in local.unknown : name => "LEASEHOLD_${trimprefix(replace(upper(name), "-", "_"), "LEASEHOLD_")}" }
  twice   = { for name, meant in local.meant : name => meant if name != meant && contains(keys(local.given), meant) }
  words   = { for name in concat(local.table.names, local.unknown) : name => "_${trimprefix(upper(name), "LEASEHOLD_")}_" }
  letters = { for name, word in local.words : name => toset(flatten([for i in range(length(word) - 1) : [substr(word, i, 1), substr(word, i, 2)]])) }
  nearest = { for name in local.unknown : name => split(" ", sort([for other in local.table.names :
    format("%04d %s", 1000 - floor(2000 * length(setintersection(local.letters[name], local.letters[other])) / (length(local.letters[name]) + length(local.letters[other]))), other)
  ])[0]) }

  # Values in a form that they may have, and of those the amounts: numbers, and durations in nanoseconds.
  checked = { for name, row in local.table.settings : name => row if contains(keys(local.set), name) }
  formed  = { for name, row in local.checked : name => can(regex(try(row.form, ""), local.set[name])) && (!try(row.json, false) || can(jsondecode(local.set[name]))) }
  amount = { for name, row in local.checked : name => floor(0.5 + sum([for part in regexall("([0-9.]+)([a-zµμ]*)", local.set[name]) :
    tonumber("0${part[0]}") * lookup({ "" = 1, ns = 1, ms = 1000000, s = 1000000000, m = 60000000000, h = 3600000000000 }, part[1], 1000)
  ])) if can(row.least) && local.formed[name] && local.set[name] != "off" }
  fits = { for name, row in local.checked : name => local.formed[name] && try(local.amount[name] >= row.least && local.amount[name] <= row.most && local.amount[name] % try(row.step, 1) == 0, true) }

  problems = concat(
    [for name, meant in local.twice : "${meant} is set twice: as ${name}, too"],
    [for name, near in local.nearest : "${name} is not a setting${tonumber(near[0]) <= 350 ? ": did you mean ${near[1]}?" : ", and no setting has a similar name: docs/reference/settings.md lists all"}" if !can(local.twice[name])],
    [for name, why in local.table.refused : "${name} ${why}" if contains(keys(local.given), name)],
    [for name, row in local.table.settings : "${name} is empty, which would turn a check of callers off: set it, or remove it" if try(row.not_empty, false) && try(local.given[name], null) == ""],
    [for name, row in local.checked : "${name} is ${format("%q", local.set[name])}: it must be ${row.must}" if !local.fits[name]],
    [for rule in local.table.rules : "${rule.if} needs ${rule.needs}: ${rule.why}" if can(rule.needs) && contains(keys(local.set), rule.if) && !contains(keys(local.set), try(rule.needs, ""))],
    [for rule in local.table.rules : "${rule.if} and ${rule.not_with} cannot both be set: ${rule.why}" if can(rule.not_with) && contains(keys(local.set), rule.if) && contains(keys(local.set), try(rule.not_with, ""))],
  )

  # Of each function, those that it takes.
  settings = { for function in local.table.functions : function => { for name, value in local.set : name => value if contains(try(local.table.settings[name].functions, []), function) } }
}

output "settings" {
  description = "Settings of each function, as it gets them from the variable settings."
  value       = local.settings

  precondition {
    condition     = length(local.problems) == 0
    error_message = join("\n", local.problems)
  }
}
