module millrace.example/tests/h2spec

go 1.17

require github.com/summerwind/h2spec v2.2.1+incompatible

require (
	github.com/fatih/color v1.15.0 // indirect
	github.com/spf13/cobra v1.7.0 // indirect
	golang.org/x/net v0.17.0 // indirect
)
