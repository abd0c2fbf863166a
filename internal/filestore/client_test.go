package filestore

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAddress(t *testing.T) {
	yes, no := true, false
	for raw, want := range map[string]address{
		"s3://docs":                   {bucket: "docs"},
		"s3://docs/":                  {bucket: "docs"},
		"S3://docs/a/b/":              {bucket: "docs", prefix: "a/b"},
		"s3://my_gcs.bucket-1//a//":   {bucket: "my_gcs.bucket-1", prefix: "a"},
		"s3://docs/year=2026/it's(1)": {bucket: "docs", prefix: "year=2026/it's(1)"},
		"s3://docs/a?region=eu-west-1&endpoint=https://minio.example:9000&path_style=false": {bucket: "docs",
			prefix: "a", region: "eu-west-1", endpoint: "https://minio.example:9000", pathStyle: &no},
		"s3://docs?REGION=auto&Endpoint=http%3A%2F%2F127.0.0.1%3A9000%2F&path_style=TRUE": {bucket: "docs",
			region: "auto", endpoint: "http://127.0.0.1:9000", pathStyle: &yes},
		"s3://docs/?endpoint=http://[::1]:9000/s3": {bucket: "docs",
			endpoint: "http://[::1]:9000/s3"},
	} {
		got, err := parseAddress(raw)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(address{})); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", raw, err, diff)
		}
	}
}

func TestAddressRefused(t *testing.T) {
	for raw, want := range map[string]string{
		"s3:":                        "s3://bucket/prefix",
		"s3:docs":                    "s3://bucket/prefix",
		"s3:/docs":                   "s3://bucket/prefix",
		"s3://":                      "bucket \"\"",
		"s3:///docs":                 "bucket \"\"",
		"s3://Docs":                  "must match",
		"s3://ab/\x00":               "s3://bucket/prefix",
		"s3://docs:9000/a":           "?endpoint=",
		"s3://key:TOPSECRET@docs/a":  "AWS_ACCESS_KEY_ID",
		"s3://key:TOP/SECRET@docs/a": "AWS_ACCESS_KEY_ID",
		"s3://key/TOPSECRET@docs":    "AWS_ACCESS_KEY_ID",
		"s3://key:TOPSECRET/docs":    "s3://bucket/prefix",
		"s3://docs/a?secret_access_key=TOPSECRET":   "region, endpoint and path_style",
		"s3://docs/a?TOPSECRET":                     "region, endpoint and path_style",
		"s3://docs/a?region=TOP%20SECRET":           "eu-west-1",
		"s3://docs/a?region=a;endpoint=b":           "s3://bucket/prefix",
		"s3://docs/a?region=":                       "eu-west-1",
		"s3://docs/a?region=a&region=b":             "twice",
		"s3://docs/a?endpoint=minio:9000":           "https://minio.example:9000",
		"s3://docs/a?endpoint=http://k:TOPSECRET@h": "without credentials",
		"s3://docs/a?endpoint=http://h?t=TOPSECRET": "without credentials",
		"s3://docs/a?endpoint=http://:9000":         "https://minio.example:9000",
		"s3://docs/a?endpoint=ftp://h":              "https://minio.example:9000",
		"s3://docs/a?path_style=maybe":              "true or false",
		"s3://docs/a/../b":                          "..",
		"s3://docs/./b":                             "..",
		"s3://docs/a//b":                            "must match",
		"s3://docs/a b":                             "must match",
		"s3://docs/a*?[b]":                          "region, endpoint and path_style",
		"s3://docs/a#b":                             "#",
		"gs://docs/a":                               "s3://bucket/prefix",
		"https://docs.s3.amazonaws.com/a":           "s3://bucket/prefix",
	} {
		_, err := New(raw)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New(%q) = %v, want an error with %q", raw, err, want)
			continue
		}
		if strings.Contains(err.Error(), "TOP") || strings.Contains(err.Error(), "\n") {
			t.Errorf("New(%q) = %v", raw, err)
		}
	}
}

func FuzzAddress(f *testing.F) {
	for _, raw := range []string{"s3://docs/a?region=eu-west-1&endpoint=http://h:1&path_style=true",
		"s3://key:secret@docs/a", "s3://a%zz", "s3:docs", "s3://docs/%2e%2e/a"} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		a, err := parseAddress(raw)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q: %q", raw, err)
			}
			return
		}
		if strings.ContainsAny(a.bucket+a.prefix+a.endpoint, "@\n\x00 ") || strings.Contains("/"+a.prefix+"/", "/../") {
			t.Errorf("%q is %+v", raw, a)
		}
		again, err := parseAddress("s3://" + a.bucket + "/" + a.prefix)
		if err != nil || again.bucket != a.bucket || again.prefix != a.prefix {
			t.Errorf("%q is %+v, and its own form %+v, %v", raw, a, again, err)
		}
	})
}
