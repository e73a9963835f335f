//! Two builds of a small app: the second one has an edited function.

use std::process::Command;
use unslide_model::{DebugId, RelativeAddress};
use unslide_symbolicate::object::{build_symcache, list_objects};
use unslide_symbolicate::symcache::SymCache;
use unslide_testkit::fixtures;

const SOURCE: &str = "
struct Cart { int *prices; int count; };
extern void show(int value);
static inline int discounted(int price) {
  int cut = price / 10;
  //edit
  return price - cut;
}
int cart_total(const struct Cart *cart) {
  int sum = 0;
  for (int i = 0; i < cart->count; i++)
    sum += discounted(cart->prices[i]);
  return sum;
}
int cart_largest(const struct Cart *cart) {
  int best = 0;
  for (int i = 0; i < cart->count; i++)
    if (cart->prices[i] > best)
      best = cart->prices[i];
  return best;
}
void cart_clear(struct Cart *cart) {
  for (int i = 0; i < cart->count; i++)
    cart->prices[i] = 0;
}
int cart_first(const struct Cart *cart) {
  return cart->count ? cart->prices[0] : -1;
}
void cart_show(const struct Cart *cart) {
  show(cart_first(cart));
  show(cart_largest(cart));
}
int cart_open(struct Cart *cart) {
  cart_show(cart);
  int total = cart_total(cart);
  show(total);
  return total;
}
";
/// The edit of the second build.
const EDIT: &str = "if (cut > 50)\n    cut = 50;";

/// A build of the app.
pub struct ShopBuild {
    pub debug_id: DebugId,
    pub symcache: Vec<u8>,
}

impl ShopBuild {
    /// Builds the app as it was, or with the edit.
    pub fn compile(is_edited: bool) -> ShopBuild {
        let source = SOURCE.replace("//edit", if is_edited { EDIT } else { "" });
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("shop.c"), source).unwrap();
        fixtures::run(
            Command::new(fixtures::find_tool("clang-19"))
                .current_dir(folder.path())
                .args(["-target", "arm64-apple-ios14.0", "-g", "-O2", "-finline-hint-functions"])
                .args(["-fdebug-compilation-dir=/shop", "-c", "shop.c", "-o", "shop.o"]),
        );
        fixtures::run(
            Command::new(fixtures::find_tool("ld64.lld-19"))
                .current_dir(folder.path())
                .args(["-arch", "arm64", "-platform_version", "ios", "14.0", "14.0", "-dylib"])
                .args(["-install_name", "@rpath/Shop", "-undefined", "dynamic_lookup", "-no_adhoc_codesign"])
                .arg(fixtures::recipe().join("src/libSystem.tbd"))
                .args(["shop.o", "-o", "Image"]),
        );
        let dsym = path("Shop");
        let dsymutil = fixtures::find_tool("dsymutil-19");
        fixtures::run(Command::new(dsymutil).current_dir(folder.path()).args(["-f", "-o", "Shop", "Image"]));
        let bytes = std::fs::read(&dsym).unwrap();
        let range = list_objects(&bytes).unwrap().remove(0).range;
        let built = build_symcache(&bytes[range]).unwrap();
        ShopBuild { debug_id: built.debug_id, symcache: built.symcache }
    }

    /// Returns an address in the code of a function, also if it is inlined into another one.
    pub fn find_address(&self, function: &str) -> RelativeAddress {
        let symcache = SymCache::parse(self.symcache.clone()).unwrap();
        let found = symcache.ranges().find_map(|(start, answer)| {
            let innermost = answer?.calls().next()?.function.decode().into_owned();
            (innermost == function).then_some(start)
        });
        found.unwrap()
    }
}
