//! Names of types whose template arguments clang has left out of `DW_AT_name`: they are those that it writes there without
//! `-gsimple-template-names`.

use gimli::{Dwarf, EndianSlice, LittleEndian, SectionId};
use object::{Object, ObjectSection};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use unslide_fault_analysis_variables::{RegisterSet, ReportState, TableLimits, VariableTable, build_table};

const SOURCE: &str = "
enum class Colour : int { red, green };
struct Item { int price; };
template <class T> struct Shelf { T *first; struct Slot { T *item; }; Slot slot; };
template <class T, int N> struct Row { T items[N]; };
template <unsigned long N, bool B> struct Flags { int x; };
template <class... T> struct Pack { int x; };
template <template <class> class C> struct Holder { int x; };
namespace shop { struct Order { int id; }; template <class T> struct Box { T value; };
  namespace eu { struct Tax { int rate; }; } }
using Orders = Shelf<shop::Order>;
int total(Shelf<Item> *shelf, Shelf<shop::Order> &orders, Row<int, 4> row, const Shelf<Shelf<Item>> *nested,
          Flags<7, true> *flags, Pack<Item, shop::eu::Tax, int *> *pack, Pack<> *none, Holder<Shelf> *holder, Orders *alias,
          shop::Box<shop::eu::Tax> *box, Shelf<const shop::Order *> *pointers, Shelf<Item>::Slot *slot, Shelf<Shelf<Item>::Slot> *slots,
          Shelf<Item> *array[3], Item *plain) {
  return shelf->first->price + orders.first->id + row.items[1] + nested->first->first->price + flags->x + pack->x + none->x + holder->x
    + alias->first->id + box->value.rate + (*pointers->first)->id + slot->item->price + slots->first->item->price
    + array[1]->first->price + plain->price;
}
";

/// Returns the types of the parameters in the debug information of a compiler's output, by their names.
fn parameter_types(options: &[&str]) -> BTreeMap<String, String> {
    let folder =
        std::env::temp_dir().join(format!("unslide-templates-{}-{}", std::process::id(), options.len()));
    std::fs::create_dir_all(&folder).unwrap();
    let (source, object) = (folder.join("a.cpp"), folder.join("a.o"));
    std::fs::write(&source, SOURCE).unwrap();
    compile(&source, &object, options);
    let bytes = std::fs::read(&object).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let load = |id: SectionId| {
        let name = format!("__{}", id.name().trim_start_matches('.'));
        let name = if name == "__debug_str_offsets" { "__debug_str_offs".to_owned() } else { name };
        let bytes = file.section_by_name(&name).map(|section| section.data().unwrap()).unwrap_or_default();
        Ok::<_, gimli::Error>(EndianSlice::new(bytes, LittleEndian))
    };
    let dwarf: Dwarf<EndianSlice<'_, LittleEndian>> = Dwarf::load(load).unwrap();
    let limits = TableLimits { table_bytes: 1 << 20, entries: 1_000_000 };
    let table = build_table(&dwarf, RegisterSet::Arm64, 0, &limits).unwrap();
    let table = VariableTable::parse(&table).unwrap();
    let register = |_: &str| Some(0x1000);
    let state = ReportState { register: &register, stack_start: 0, stack: &[] };
    let values = table.read_values(0x40, &state).unwrap();
    values.into_iter().map(|value| (value.name, value.type_name)).collect()
}

fn compile(source: &Path, object: &Path, options: &[&str]) {
    let clang = format!("clang{}", std::env::var("LLVM").unwrap_or_else(|_| "-19".to_owned()));
    let mut command = Command::new(clang);
    command.args(["-target", "arm64-apple-ios14.0", "-g", "-gdwarf-4", "-O0", "-std=c++17", "-c"]);
    assert!(command.args(options).arg(source).arg("-o").arg(object).status().unwrap().success());
}

#[test]
fn types_with_simple_template_names_have_the_names_of_whole_ones() {
    let whole = parameter_types(&[]);
    assert_eq!(whole.len(), 15, "{whole:?}");
    assert_eq!(whole["shelf"], "Shelf<Item> *");
    assert_eq!(whole["row"], "Row<int, 4>");
    let simple = parameter_types(&["-gsimple-template-names"]);
    assert_eq!(simple, whole);
}
