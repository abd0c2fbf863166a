// Package must spares programs of developers the handling of errors that end them anyway: [Do] and [Get] panic with
// an error, and [Catch] makes it the error of a function again. It is not for docgauge itself, nor for what
// outlives an error.
package must

import "errors"

// failure is what Do panics with.
type failure struct{ error }

// Do panics if err is not nil.
func Do(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// Get returns value, or panics if err is not nil.
func Get[T any](value T, err error) T {
	Do(err)
	return value
}

// Try does something and returns the error that ended it.
func Try(do func()) (err error) {
	defer Catch(&err)
	do()
	return nil
}

// Catch is deferred: it ends a panic of Do or Get in the same goroutine, and puts its error before the one that
// functions deferred later may have set. It passes on any other panic.
func Catch(err *error) {
	switch p := recover().(type) {
	case nil:
	case failure:
		*err = errors.Join(p.error, *err)
	default:
		panic(p)
	}
}
