// Package tests holds the Terraform modules of infra/ against the program that they deploy. Its tests format, validate
// and plan them without an account, with the providers of a local mirror, and compare the plans with the code. They
// change the modules, one mistake at a time, and make sure that each is found.
//
// A mirror is a folder as "terraform providers mirror" makes it. LEASEHOLD_TEST_TERRAFORM_MIRROR names one; without it,
// the folders that Terraform looks into by itself, and those in /opt, are searched. LEASEHOLD_TEST_TERRAFORM names the
// program, if it is not the terraform or the tofu on the path. What needs a provider that no mirror has is skipped, and
// says so.
//
// The command generate writes the lists of inputs and outputs in each README.md, and copies of files.
package tests

//go:generate go run ./generate
