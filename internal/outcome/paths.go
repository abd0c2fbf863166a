package outcome

// Mapping tells which pages the files of a documentation repository become.
type Mapping struct {
	// Root is the folder of the documentation: that of Navigation, where it is known.
	Root string
	// Navigation is the content of docs.json or mint.json; nil: there is none.
	Navigation []byte
	// Pages are those that the front matter of the prompt names; they replace the mapping.
	Pages []string
}

// Paths returns the paths of the pages that the changed files are, sorted, each once. Files
// that are no page, such as images, are left out. An error concerns Navigation, which is then
// not used.
func (m Mapping) Paths(changed []string) ([]string, error) {
	return nil, nil
}
