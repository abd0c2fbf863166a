package parquet

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"io"

	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// sums is what the body of an object adds up to: md5 for the server that takes
// it, metadata for whoever reads it.
type sums struct {
	size     int64
	md5      string
	metadata map[string]string
}

// sumsOf reads body and goes back to its beginning.
func sumsOf(body io.ReadSeeker) (s sums, err error) {
	short, all, tail := md5.New(), sha256.New(), sha256.New() //nolint:gosec // detects damage on the way, not an attack
	if s.size, err = io.Copy(io.MultiWriter(short, all), body); err != nil {
		return s, err
	}
	if _, err = body.Seek(max(0, s.size-tailBytes), io.SeekStart); err != nil {
		return s, err
	}
	if _, err = io.Copy(tail, body); err != nil {
		return s, err
	}
	s.md5 = base64.StdEncoding.EncodeToString(short.Sum(nil))
	s.metadata = map[string]string{sumKey: hex.EncodeToString(all.Sum(nil)), tailSumKey: hex.EncodeToString(tail.Sum(nil))}
	_, err = body.Seek(0, io.SeekStart)
	return s, err
}

// verify compares a sum of what was read with the one it was published with.
// Objects that came otherwise have none, unless their metadata came along.
func verify(answer *s3.GetObjectOutput, key string, sum []byte) error {
	if want := answer.Metadata[key]; want != "" && want != hex.EncodeToString(sum) {
		return brokenOff{errDamaged}
	}
	return nil
}
