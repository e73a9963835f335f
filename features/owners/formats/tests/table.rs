//! Owners of source paths, as each product resolves them: a table of files, paths and answers.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use unslide_owners_formats::{OwnersDialect, OwnersFile, PathRewrite, resolve_owner};

/// A file with its paths. A case is a path, an arrow, and its owners or the outcome in parentheses.
struct Block {
    dialect: OwnersDialect,
    file: &'static str,
    cases: &'static str,
}

const REWRITES: [(&str, &str); 7] = [
    ("/Users/ci/build/shop/", ""),
    ("/Users/ci/build/shop/Vendored/Pay", "vendor/pay"),
    ("/Volumes/workspace/repository", ""),
    ("/opt/mono/apps/shop/", "apps/shop/"),
    ("C:\\agent\\work\\1\\s", ""),
    ("/proc/self/cwd", ""),
    ("../../", "web"),
];

const GITHUB: Block = Block {
    dialect: OwnersDialect::GitHub,
    file: "\
# Owners of the shop
*                     @example/all
*.swift               @example/ios   # every Swift file
docs/*                @example/docs
/Sources/Cart/        @example/cart
Sources/Pay           @example/pay docs@example.com
apps/                 @example/apps
Legacy                @example/legacy
/Sources/Cart/Old/
**/logs               @example/logs
/deep/**/leaf.c       @example/deep
/all/**               @example/below
/one?.c               @example/one
My\\ Folder/           @example/space
/Sources/*/Gen/       @example/gen
!Sources/Cart/Not.swift @example/not
/Sources/[abc].c      @example/class
\\#hash                @example/hash
/three***stars        @example/stars
/bad/owner            example
/                     @example/root
/exact.c              @example/exact
/ios/Pods/            @example/pods
UPPER.swift           @example/upper
x.y/*                 @example/xy
/twice.c              @example/first
/twice.c              @example/second
*.m                   @example/objc @example/ios @example/objc
",
    cases: "\
README.md => @example/all
Sources/App.kt => @example/all
.github/workflows/ci.yml => @example/all
Sources/App.swift => @example/ios
App.swift => @example/ios
a/b/c/d/App.swift => @example/ios
Folder.swift/note.txt => @example/ios
App.Swift => @example/all
docs/guide.md => @example/docs
docs/api/guide.md => @example/all
docs/.hidden => @example/docs
a/docs/guide.md => @example/all
docs => @example/all
Docs/guide.md => @example/all
Sources/Cart/Cart.swift => @example/cart
Sources/Cart/Deep/Er/Cart.swift => @example/cart
Sources/Cart => @example/all
Sources/cart/Cart.swift => @example/ios
Sources/Cart2/Cart.swift => @example/ios
a/Sources/Cart/Cart.swift => @example/ios
Sources/Cart/Old/Cart.swift => (cleared)
Sources/Cart/Old/a/b.swift => (cleared)
Sources/Cart/Older/a.swift => @example/cart
Sources/Pay => @example/pay docs@example.com
Sources/Pay/Pay.swift => @example/pay docs@example.com
Sources/Pay/a/b/c.swift => @example/pay docs@example.com
Sources/PayLater/Pay.swift => @example/ios
x/Sources/Pay/Pay.swift => @example/ios
apps/a.c => @example/apps
x/apps/y/a.c => @example/apps
apps => @example/all
myapps/a.c => @example/all
Legacy => @example/legacy
Legacy/a.c => @example/legacy
a/Legacy/b/c.c => @example/legacy
LegacyCode/a.c => @example/all
logs => @example/logs
logs/today.txt => @example/logs
a/b/logs/today.txt => @example/logs
a/blogs/today.txt => @example/all
deep/leaf.c => @example/deep
deep/a/leaf.c => @example/deep
deep/a/b/c/leaf.c => @example/deep
x/deep/leaf.c => @example/all
deep/aleaf.c => @example/all
all/a.c => @example/below
all/a/b/c.swift => @example/below
all => @example/all
b/all/a.c => @example/all
one1.c => @example/one
oneX.c => @example/one
one.c => @example/all
one12.c => @example/all
one/.c => @example/all
x/one1.c => @example/all
My Folder/a.c => @example/space
b/My Folder/a/b.c => @example/space
MyFolder/a.c => @example/all
Sources/A/Gen/a.swift => @example/gen
Sources/A/Gen/b/c.swift => @example/gen
Sources/A/B/Gen/a.swift => @example/ios
Sources/Gen/a.swift => @example/ios
Sources/Cart/Not.swift => @example/cart
Sources/a.c => @example/all
#hash => @example/all
three_stars => @example/all
bad/owner => @example/all
exact.c => @example/exact
a/exact.c => @example/all
exact.c/b => @example/exact
UPPER.swift => @example/upper
a/UPPER.swift => @example/upper
upper.swift => @example/ios
x.y/a.c => @example/xy
x.y/a/b.c => @example/all
z/x.y/a.c => @example/all
xzy/a.c => @example/all
twice.c => @example/second
a.m => @example/objc @example/ios
a.mm => @example/all
ios/Pods/Pay/Pay.c => @example/pods
Pods/Pay/Pay.c => (dependency)
ios/node_modules/x/y.swift => (dependency)
/Users/ci/build/shop/Sources/Cart/Cart.swift => @example/cart
/Users/ci/build/shop/README.md => @example/all
/Users/ci/build/shop2/Sources/Cart/Cart.swift => (unmapped)
/Users/ci/build/Sources/Cart/Cart.swift => (unmapped)
/Users/CI/build/shop/Sources/Cart/Cart.swift => (unmapped)
/Users/ci/build/shop => (unmapped)
/Users/ci/build/shop/./Sources//Cart/../Pay/Pay.swift => @example/pay docs@example.com
/Users/ci/build/shop/../shop/Sources/Cart/Cart.swift => @example/cart
/Users/ci/build/shop/../other/Sources/Cart/Cart.swift => (unmapped)
/Users/ci/build/shop/Vendored/Pay/logs/a.c => @example/logs
/Users/ci/build/shop/Vendored/Payment/a.c => @example/all
/Volumes/workspace/repository/Sources/Pay/a.swift => @example/pay docs@example.com
/Volumes/workspace/repositories/Sources/Pay/a.swift => (unmapped)
/opt/mono/apps/shop/a.c => @example/apps
/opt/mono/apps/shopping/a.c => (unmapped)
C:\\agent\\work\\1\\s\\Sources\\Cart\\Cart.swift => @example/cart
c:\\agent\\work\\1\\s\\Sources\\Cart\\Cart.swift => (unmapped)
D:\\other\\Cart.swift => (unmapped)
/proc/self/cwd/Sources/Cart/Cart.swift => @example/cart
./Sources/Cart/Cart.swift => @example/cart
../Sources/Cart/Cart.swift => (unmapped)
a/../Sources/Cart/Cart.swift => @example/cart
a/../../Sources/Cart/Cart.swift => (unmapped)
/Users/ci/build/shop/Pods/Pay/Pay.swift => (dependency)
/Users/ci/Library/SourcePackages/checkouts/kit/Sources/Pay/Pay.swift => (dependency)
/Users/ci/build/shop/build/SourcePackages/checkouts/kit/a.swift => (dependency)
/Users/ci/build/shop/.build/checkouts/kit/a.swift => (dependency)
/Users/ci/Library/Developer/Xcode/DerivedData/Shop-abc/DerivedSources/Assets.swift => (generated)
/Users/ci/build/shop/DerivedSources/Assets.swift => (generated)
<compiler-generated> => (generated)
<stdin> => (generated)
/Users/ci/build/shop/@__swiftmacro_4Shop5title.swift => (generated)
webpack://shop/./Sources/Cart/cart.js => @example/cart
webpack:///./docs/guide.js => @example/docs
webpack://shop/apps/App.vue?3f2a => @example/apps
app:///Sources/Pay/pay.js => @example/pay docs@example.com
file:///Users/ci/build/shop/Sources/Cart/a.js => @example/cart
webpack://shop/../outside.js => (unmapped)
../../Legacy/a.c => @example/legacy
../../../Legacy/a.c => (unmapped)
a/../../../apps/a.c => @example/apps
../.. => (unmapped)
webpack://shop/../../apps/a.js => @example/apps
",
};

const GITHUB_WITHOUT_DEFAULT: Block = Block {
    dialect: OwnersDialect::GitHub,
    file: "\
/Sources/Cart/ @kim
*.c            lee@example.com
/Sources/Cart/ @lee-2
/empty/        # nobody
**             
/src/**/test/  @t
**/Foo/Bar.c   @foo
/Zoë/          @zoe
a*b*c.d        @abc
",
    cases: "\
Sources/Cart/a.swift => (cleared)
README.md => (cleared)
src/test/a.k => @t
src/x/y/test/z/a.k => @t
src/test => (cleared)
Foo/Bar.c => @foo
x/y/Foo/Bar.c => @foo
xFoo/Bar.c => (cleared)
Zoë/a => @zoe
Zoe/a => (cleared)
axxbyyc.d => @abc
abc.d => @abc
acb.d => (cleared)
",
};

const GITHUB_EMPTY: Block = Block {
    dialect: OwnersDialect::GitHub,
    file: "# no line\n\n/only/this.c @only\r\n\t/tab/\t@tab\t@tab2\n",
    cases: "\
only/this.c => @only
only/that.c => (unmatched)
tab/a => @tab @tab2
README => (unmatched)
/abs/only/this.c => (unmapped)
",
};

const GITLAB: Block = Block {
    dialect: OwnersDialect::GitLab,
    file: "\
# Owners of the shop
*                        @example/all
*.rb                     @example/ruby
internal/README.md       @example/internal
/docs/                   @example/docs
/direct/*                @example/direct
/star/**                 @example/one-level
/stars/**/*              @example/any-level
\\#file                   @example/hash
path\\ with\\ spaces/      @example/space
[ab].c                   @example/class
/x/[!ab].c               @example/not-class
bare                     @example/bare
/leaf/**/x.c             @example/leaf
bad-line
/mixed                   word @example/mixed

[Database] @example/db
*.sql
/model/                  @example/model docs@example.com
!/model/generated/
/model/generated/keep.sql @example/keep

^[Optional Docs][2] @example/writers
*.md
/secret.md               @@maintainers

[DATABASE]
*.ddl                    @example/ddl
*.dml

[Broken @example/broken
*.brk @example/brk

[Empty]
*.none
",
    cases: "\
main.go => @example/all
a/b/.hidden => @example/all
a.rb => @example/ruby
x/y/a.rb => @example/ruby
a.RB => @example/all
internal/README.md => @example/internal @example/writers
docs/internal/README.md => @example/docs @example/writers
x/y/internal/README.md => @example/internal @example/writers
xinternal/README.md => @example/all @example/writers
docs/a.txt => @example/docs
docs/a/b/c.txt => @example/docs
x/docs/a.txt => @example/all
docs => @example/all
direct/a => @example/direct
direct/.a => @example/direct
direct/a/b => @example/all
star/a => @example/one-level
star/a/b => @example/all
stars/a => @example/any-level
stars/a/b/c => @example/any-level
stars => @example/all
#file => @example/hash
x/#file => @example/hash
path with spaces/a => @example/space
x/path with spaces/b/c => @example/space
a.c => @example/class
x/c.c => @example/not-class
x/a.c => @example/class
bare => @example/bare
x/bare => @example/bare
bare/a => @example/all
x/bare/a => @example/all
leaf/x.c => @example/leaf
leaf/a/b/x.c => @example/leaf
bad-line => (cleared)
mixed => @example/mixed
schema.sql => @example/all @example/db
a/b/schema.sql => @example/all @example/db
model/a.sql => @example/all @example/model docs@example.com
model/x/y.txt => @example/all @example/model docs@example.com
model/generated/a.sql => @example/all
model/generated/keep.sql => @example/all
x/model/generated/a.sql => @example/all @example/db
notes.md => @example/all @example/writers
secret.md => @example/all @@maintainers
a.ddl => @example/all @example/ddl
a.dml => @example/all
a.brk => @example/all @example/brk
a.none => @example/all
/Users/ci/build/shop/docs/a.txt => @example/docs
/Users/ci/build/shop/model/generated/keep.sql => @example/all
/elsewhere/docs/a.txt => (unmapped)
Pods/x/a.rb => (dependency)
<compiler-generated> => (generated)
",
};

const GITLAB_SECTIONS: Block = Block {
    dialect: OwnersDialect::GitLab,
    file: "\
[iOS][2] @ios-lead @example/ios/core
/ios/
/ios/shared/ @example/shared
[Android] @droid
/android/
[ios]
/apple/
[Shared] @example/shared
/ios/shared/
/android/shared/
**/tests/** @qa
!/android/tests/
",
    cases: "\
ios/a.swift => @ios-lead @example/ios/core
ios/shared/a.swift => @example/shared
android/a.kt => @droid
android/shared/a.kt => @droid @example/shared
apple/a.swift => (cleared)
ios/tests/a.swift => @ios-lead @example/ios/core @qa
ios/tests/deep/a.swift => @ios-lead @example/ios/core
android/tests/a.kt => @droid
web/a.js => (unmatched)
iOS/a.swift => (unmatched)
",
};

const GITLAB_ROOT: Block = Block {
    dialect: OwnersDialect::GitLab,
    file: "\
/               @example/all
/*              @example/top
//              @example/all
[Docs]
/docs           @example/docs
!/
",
    cases: "\
a/b/c.swift => @example/all
top.swift => @example/all
docs => @example/all
",
};

fn check(block: &Block) -> usize {
    let rewrites: Vec<PathRewrite> = REWRITES
        .iter()
        .map(|(from, to)| PathRewrite { from: (*from).to_owned(), to: (*to).to_owned() })
        .collect();
    let file = OwnersFile::parse(block.file.as_bytes(), block.dialect).unwrap();
    let wrong: Vec<String> = block
        .cases
        .lines()
        .filter_map(|case| {
            let (path, expected) = case.split_once(" => ").unwrap();
            let found = resolve_owner(&file, &rewrites, path);
            let owners = found.owners.join(" ");
            let answer = if owners.is_empty() { format!("({})", found.outcome) } else { owners };
            (answer != expected).then(|| format!("{path}: {answer}, not {expected}; {:?}", found.lines))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    block.cases.lines().count()
}

#[test]
fn two_hundred_paths_have_their_owner_or_none() {
    let blocks = [GITHUB, GITHUB_WITHOUT_DEFAULT, GITHUB_EMPTY, GITLAB, GITLAB_SECTIONS, GITLAB_ROOT];
    let cases: usize = blocks.iter().map(check).sum();
    assert!(cases >= 200, "{cases}");
}

#[test]
fn invalid_lines_are_reported_with_their_number() {
    let lines = |block: &Block| -> Vec<u32> {
        let file = OwnersFile::parse(block.file.as_bytes(), block.dialect).unwrap();
        file.problems.first.iter().map(|problem| problem.line).collect()
    };
    // Negation, a class, an escaped #, three asterisks, and a word that is no owner.
    assert_eq!(lines(&GITHUB), [16, 17, 18, 19, 20]);
    // A line without an owner, a word that is none, lines without owners in two sections, and a heading without an end.
    assert_eq!(lines(&GITLAB), [15, 16, 30, 32, 36]);
}

#[test]
fn a_file_that_is_too_large_or_no_text_is_refused() {
    let parse = |bytes: &[u8]| {
        OwnersFile::parse(bytes, OwnersDialect::GitHub)
            .map(|file| file.count_rules())
            .map_err(|error| error.to_string())
    };
    assert!(parse(&vec![b'#'; 3_000_001]).unwrap_err().contains("3000001 bytes"));
    assert_eq!(parse(b"/a @a\n/b\xff @b\n").unwrap_err(), "line 2 is not UTF-8");
    for (line, count) in [("/a @a\n", 50_001), ("# a\n", 100_001), ("[A]\n", 1_001)] {
        let refused = parse(line.repeat(count).as_bytes()).unwrap_err();
        assert!(
            refused.starts_with("the file has more than 100000 lines, 50000 with a pattern"),
            "{refused}"
        );
    }
    assert_eq!(parse(&[b"\xef\xbb\xbf/a @a\n".as_slice(), &vec![b'#'; 2_000_000]].concat()), Ok(1));
    assert_eq!(parse(format!("/a @a\n/{} @b\n", "b".repeat(9_000)).as_bytes()), Ok(1));
}

#[test]
fn the_work_for_a_path_and_the_texts_about_lines_are_bounded() {
    let parse = |text: &str, dialect| OwnersFile::parse(text.as_bytes(), dialect);
    // Each of these lines alone is one that may be written; all together would take seconds for each path.
    let wild = format!("/{} @a\n", "*a".repeat(500));
    let refused = parse(&wild.repeat(600), OwnersDialect::GitHub).unwrap_err().to_string();
    assert!(refused.contains("more than 500000 characters together"), "{refused}");
    let usual = "/Sources/*/View*.swift @a\n".repeat(40_000);
    assert_eq!(parse(&usual, OwnersDialect::GitHub).unwrap().count_rules(), 40_000);
    let long = format!("/{} @a\n", "b".repeat(1_024));
    for dialect in [OwnersDialect::GitHub, OwnersDialect::GitLab] {
        let file = parse(&long, dialect).unwrap();
        assert_eq!((file.count_rules(), file.problems.count), (0, 1));
        assert!(file.problems.first[0].problem.contains("more than 1024 bytes"));
    }
    // A line of many words that are no owners, and many of them.
    let words = format!("a {}\n", "\u{1}".repeat(4_000) + &" x".repeat(1_000)).repeat(100);
    let file = parse(&words, OwnersDialect::GitLab).unwrap();
    assert_eq!((file.problems.count, file.problems.first.len()), (100_200, 50));
    assert!(file.problems.first.iter().all(|one| one.problem.chars().count() <= 300));
    let deep = format!("{}x.swift", "a/".repeat(2_100));
    assert_eq!(resolve_owner(&file, &[], &deep).outcome.as_str(), "unmapped");
}
