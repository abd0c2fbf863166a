package engines_test

import (
	"io"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

func TestS3KeepsItsObjects(t *testing.T) {
	server := engines.RunS3(t)
	if err := server.CreateBucket(t.Context(), "lake"); err != nil {
		t.Fatal(err)
	}
	client := s3.New(s3.Options{
		BaseEndpoint: &server.Endpoint,
		Region:       server.Region,
		UsePathStyle: true,
		Credentials:  credentials.NewStaticCredentialsProvider(server.AccessKey, server.SecretKey, ""),
	})
	_, err := client.PutObject(t.Context(), &s3.PutObjectInput{
		Bucket: aws.String("lake"), Key: aws.String("a/b"), Body: strings.NewReader("42")})
	if err != nil {
		t.Fatal(err)
	}
	for _, end := range []func() error{server.Kill, server.Stop} {
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
		object, err := client.GetObject(t.Context(),
			&s3.GetObjectInput{Bucket: aws.String("lake"), Key: aws.String("a/b")})
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(object.Body); string(body) != "42" || err != nil {
			t.Errorf("the object after a restart: %q, %v", body, err)
		}
		object.Body.Close()
	}
}
