package backup_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/rclone/gofakes3"
	"github.com/rclone/gofakes3/s3mem"

	"stampede/platform/store/backup"
	"stampede/platform/workshop/embedded"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// unreadable is a bucket whose key has no other rights than the handbook wants.
const unreadable = "unreadable"

// Both kinds of place keep a backup whole or not at all, and delete the oldest and nothing else.
func TestPlaces(t *testing.T) {
	t.Parallel()
	server := bucket(t)
	for kind, place := range map[string]string{
		"folder": filepath.Join(t.TempDir(), "new"), "bucket": server + "/shop/nightly", "bucket without a prefix": server + "/other",
		unreadable: server + "/unreadable/nightly",
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			at, err := backup.At(place)
			require.NoError(t, err)
			if strings.Contains(at.String(), "secret") {
				t.Errorf("%s shows its secret", at)
			}
			put := func(name, content string, failure error) (int64, error) {
				return at.Put(t.Context(), name, func(w io.Writer) error {
					_, err := io.WriteString(w, content)
					return errors.Join(err, failure)
				})
			}
			names := []string{"2026-11-27T200000Z.stampede.age", "2026-11-28T200000Z.stampede.age", "2026-11-29T200000Z.stampede.age"}
			for _, name := range append(names, "other file") {
				size, err := put(name, "content of "+name, nil)
				require.NoError(t, err)
				require.Equal(t, "size", size, int64(len("content of "+name)))
			}
			if _, err := put(names[0], "again", nil); err == nil || !strings.Contains(err.Error(), "exists already") {
				t.Errorf("a name was used twice: %v", err)
			}
			broken := errors.New("the database went away")
			if _, err := put("2026-11-30T200000Z.stampede.age", strings.Repeat("half ", 5<<20), broken); !errors.Is(err, broken) {
				t.Errorf("a backup that failed: %v", err)
			}
			unfinished := leftovers(t, place)
			const ahead = "2027-11-29T200000Z.stampede.age" // of a clock that was
			_, err = put(ahead, "later", nil)
			require.NoError(t, err)
			deleted, err := backup.Prune(t.Context(), at, 2, time.Date(2026, 11, 29, 21, 0, 0, 0, time.UTC))
			require.NoError(t, err)
			require.Equal(t, "deleted", deleted, 1)
			left, err := at.Names(t.Context())
			require.NoError(t, err)
			require.Equal(t, "what is left", left, []string{ahead, names[2], names[1]})
			require.Equal(t, "what is left of those that ended with their process", unfinished(), []string{"2026-11-29T130000Z.stampede.age", "other file"})
			if kind == unreadable {
				return
			}
			for _, name := range []string{names[1], "other file"} {
				r, err := at.Open(t.Context(), name)
				require.NoError(t, err)
				content, err := io.ReadAll(r)
				require.NoError(t, errors.Join(err, r.Close()))
				require.Equal(t, "content", string(content), "content of "+name)
			}
		})
	}
	wrong, err := backup.At(strings.Replace(server, "the-secret", "another", 1) + "/shop")
	require.NoError(t, err)
	if _, err := wrong.Put(t.Context(), "2026-11-28T200000Z.stampede.age", func(io.Writer) error { return nil }); err == nil {
		t.Error("a wrong secret was taken")
	}
	for _, place := range []string{"s3://host/bucket", "s3://key@host/bucket", "s3://key:secret@host", "s3://key:secret@/bucket", "s3:", "S3://key:secret@host/bucket", " s3://key:secret@host/bucket", "https://key:secret@host/bucket"} {
		if _, err := backup.At(place); err == nil || !strings.Contains(err.Error(), "must be like s3://KEY:SECRET@") {
			t.Errorf("%s: %v", place, err)
		}
	}
}

// A backup that an object storage says to have taken, and does not have, is none.
func TestBucketLosesTheUpload(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		said := ""
		switch {
		case r.Method == http.MethodGet:
			said = `<ListBucketResult><Name>shop</Name></ListBucketResult>`
		case r.Method == http.MethodPut:
			w.Header().Set("ETag", `"x"`)
		case r.URL.Query().Has("uploads"):
			said = `<InitiateMultipartUploadResult><Bucket>shop</Bucket><Key>k</Key><UploadId>u</UploadId></InitiateMultipartUploadResult>`
		default:
			said = `<CompleteMultipartUploadResult><Bucket>shop</Bucket><Key>k</Key><ETag>"y"</ETag></CompleteMultipartUploadResult>`
		}
		_, _ = io.WriteString(w, said)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	at, err := backup.At("s3://the-key:the-secret@" + server.Listener.Addr().String() + "/shop?region=us-east-1")
	require.NoError(t, err)
	_, err = at.Put(t.Context(), "2026-11-27T200000Z.stampede.age", func(w io.Writer) error {
		_, err := io.WriteString(w, "content")
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "took the upload and does not have it") {
		t.Errorf("an upload that was lost: %v", err)
	}
}

// leftovers makes parts of backups whose process died, of an old one, a new one and of another file, and returns how to list
// what there is.
func leftovers(t *testing.T, place string) (list func() []string) {
	t.Helper()
	names := []string{"2026-11-28T200000Z.stampede.age", "2026-11-29T130000Z.stampede.age", "other file"}
	if !strings.HasPrefix(place, "s3:") {
		for _, name := range names {
			require.NoError(t, os.WriteFile(filepath.Join(place, "."+name+"-123"), []byte("half"), 0o600))
		}
		return func() (left []string) {
			found, err := filepath.Glob(filepath.Join(place, ".*-123"))
			require.NoError(t, err)
			for _, f := range found {
				left = append(left, strings.TrimSuffix(filepath.Base(f)[1:], "-123"))
			}
			return left
		}
	}
	u, err := url.Parse(place)
	require.NoError(t, err)
	core, err := minio.NewCore(u.Host, &minio.Options{Creds: credentials.NewStaticV4("the-key", "the-secret", "")})
	require.NoError(t, err)
	bucket, prefix, _ := strings.Cut(u.Path[1:], "/")
	prefix = strings.TrimPrefix(prefix+"/", "/")
	for _, name := range names {
		_, err := core.NewMultipartUpload(t.Context(), bucket, prefix+name, minio.PutObjectOptions{})
		require.NoError(t, err)
	}
	return func() (left []string) {
		for upload := range core.ListIncompleteUploads(t.Context(), bucket, prefix, false) {
			require.NoError(t, upload.Err)
			left = append(left, strings.TrimPrefix(upload.Key, prefix))
		}
		return left
	}
}

// A backup in a bucket, in several parts, restores the database.
func TestRestoresFromABucket(t *testing.T) {
	t.Parallel()
	found, err := embedded.Find()
	require.NoError(t, err)
	place := bucket(t) + "/shop/nightly"
	at, err := backup.At(place)
	require.NoError(t, err)
	url := emptied(t)
	db := fill(t, url, 300_000)
	key, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	name, size, err := backup.Create(t.Context(), at, found.Tool("pg_dump"), url, backup.About{Made: time.Now()}, key.Recipient())
	require.NoError(t, err)
	require.Equal(t, "more than one part", size > 16<<20, true)
	b, err := backup.Open(t.Context(), place+"/"+name, key)
	require.NoError(t, err)
	empty := emptied(t)
	require.NoError(t, errors.Join(b.Restore(t.Context(), found.Tool("pg_restore"), empty), b.Close()))
	const sum = `SELECT md5(string_agg(noise::text, '' ORDER BY n)) FROM backed_up`
	require.Equal(t, "the table", pgtest.Read[string](t, pgtest.Connect(t, empty), sum), pgtest.Read[string](t, db, sum))
	if _, err := backup.Open(t.Context(), place+"/"+name+"x", key); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("a missing object: %v", err)
	}
	if _, err := backup.Open(t.Context(), filepath.Join(t.TempDir(), name), key); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

// bucket starts a stand-in for an object storage, which verifies signatures, with the buckets shop, other and
// unreadable.
func bucket(t *testing.T) (url string) {
	t.Helper()
	store := s3mem.New()
	require.NoError(t, errors.Join(store.CreateBucket(t.Context(), "shop"), store.CreateBucket(t.Context(), "other"), store.CreateBucket(t.Context(), unreadable)))
	s3 := gofakes3.New(store, gofakes3.WithV4Auth(map[string]string{"the-key": "the-secret"})).Server()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		object, locked := strings.CutPrefix(r.URL.Path, "/"+unreadable+"/")
		if locked && object != "" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		s3.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return "s3://the-key:the-secret@" + server.Listener.Addr().String()
}
