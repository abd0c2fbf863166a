package budget

// Places returns the places in flight that are taken.
func (b *Budget) Places() chan struct{} { return b.places }
