// Package rsakey reads and uses the RSA keys with which payment companies and their
// merchants sign.
package rsakey

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"
)

// Generate makes a key, for practice and tests.
func Generate() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048) // as the companies ask for
	if err != nil {
		panic("rsakey: " + err.Error()) // the system's randomness does not fail
	}
	return key
}

// Private reads the file of a private key: PKCS #8 or PKCS #1, in PEM form or as the
// bare Base64 that some companies' tools write.
func Private(file string) (*rsa.PrivateKey, error) {
	der, _, err := read(file)
	if err != nil {
		return nil, err
	}
	if key, err := x509.ParsePKCS1PrivateKey(der); err == nil {
		return key, nil
	}
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, err
	}
	return as[*rsa.PrivateKey](key)
}

// Public reads the file of a public key or of a certificate.
func Public(file string) (*rsa.PublicKey, error) {
	der, kind, err := read(file)
	if err != nil {
		return nil, err
	}
	if kind == "CERTIFICATE" {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, err
		}
		return as[*rsa.PublicKey](cert.PublicKey)
	}
	key, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return nil, err
	}
	return as[*rsa.PublicKey](key)
}

func as[K any](key any) (k K, err error) {
	k, ok := key.(K)
	if !ok {
		err = errors.New("it is not an RSA key")
	}
	return k, err
}

// read returns a file's content without its encoding, and the kind that PEM states.
func read(file string) (der []byte, kind string, err error) {
	text, err := os.ReadFile(file) //nolint:gosec // the operator's own setting
	if err != nil {
		return nil, "", err
	}
	if block, _ := pem.Decode(text); block != nil {
		return block.Bytes, block.Type, nil
	}
	der, err = base64.StdEncoding.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil {
		err = errors.New("it is neither in PEM form nor Base64")
	}
	return der, "", err
}

// Sign returns the Base64 of an RSA signature (PKCS #1 v1.5, SHA-256).
func Sign(key *rsa.PrivateKey, text []byte) (string, error) {
	sum := sha256.Sum256(text)
	out, err := rsa.SignPKCS1v15(nil, key, crypto.SHA256, sum[:])
	if err != nil {
		return "", fmt.Errorf("sign: %w", err)
	}
	return base64.StdEncoding.EncodeToString(out), nil
}

// Verify checks what Sign has signed.
func Verify(key *rsa.PublicKey, signature string, text []byte) error {
	raw, err := base64.StdEncoding.DecodeString(signature)
	if err != nil {
		return fmt.Errorf("signature: %w", err)
	}
	sum := sha256.Sum256(text)
	return rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], raw)
}
