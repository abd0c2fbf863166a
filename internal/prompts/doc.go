// Package prompts reads prompt files: it finds them in a folder, checks them
// strictly, and renders what is sent. It never writes the folder, knows neither
// the service nor the state, and does not decide what runs.
package prompts

import _ "go.yaml.in/yaml/v3"
